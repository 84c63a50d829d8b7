-- The jobs that wait for a person or a budget, so that every unfinished job is found without walking over finished ones.
create index job_held on job (seq) where state in ('PAUSED', 'PAUSED_QUOTA', 'RECOVERY_REQUIRED');
