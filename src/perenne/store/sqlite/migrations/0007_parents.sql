-- A job that an attempt of another one submitted keeps the id of that one; jobs of before have no parent.
alter table job add column parent text;

create index job_parent on job (parent) where parent is not null;
