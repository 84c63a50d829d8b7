-- The jobs that wait for a person or a budget, found without walking over those that ended.
create index job_held on job (seq) where state in ('PAUSED', 'PAUSED_QUOTA', 'RECOVERY_REQUIRED');
