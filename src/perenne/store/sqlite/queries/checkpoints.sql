-- name: save_checkpoint
-- The newest checkpoint of a job, by the attempt that holds it; no row is touched once the token is stale.
-- :job_id, :attempt, :number, :epoch, :generation, :sequences, :size_bytes, :digest, :record, :now
insert into checkpoint (job, attempt, number, generation, sequences, size_bytes, digest, record, saved_at)
select seq, :attempt, :number, :generation, :sequences, :size_bytes, :digest, :record, :now
from job
where id = :job_id
and state = 'RUNNING'
and attempt = :attempt
and number = :number
and (select epoch from store) = :epoch
on conflict (job) do update set
    attempt = excluded.attempt,
    number = excluded.number,
    generation = excluded.generation,
    sequences = excluded.sequences,
    size_bytes = excluded.size_bytes,
    digest = excluded.digest,
    record = excluded.record,
    saved_at = excluded.saved_at

-- name: checkpoint_of_job
-- What the ledger knows of the last checkpoint of a job.
-- :job_id
select
    checkpoint.attempt, checkpoint.number, generation, sequences, size_bytes, digest, record, saved_at
from checkpoint
join job on job.seq = checkpoint.job
where job.id = :job_id

-- name: drop_checkpoint
-- Forgets the checkpoint of a job that is completed, or that a person starts anew.
-- :job
delete from checkpoint
where job = :job

-- name: jobs_with_checkpoints
-- Ids of all jobs that have a checkpoint, with their states.
select job.id, job.state
from checkpoint
join job on job.seq = checkpoint.job

-- name: drop_checkpoints_of_completed
-- What a job left that was completed by recovery, which knows of no checkpoint.
delete from checkpoint
where job in (select seq from job where state = 'COMPLETED')

-- name: delete_checkpoints_of
-- What these jobs would have gone on from.
-- :jobs (JSON)
delete from checkpoint
where job in (select value from json_each(:jobs))
