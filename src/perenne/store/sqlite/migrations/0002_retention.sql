-- Indexes with which old jobs are found and removed without walking over the others.
create index job_finished on job (finished_at) where finished_at is not null;

create index notice_of_job on notice (job);
