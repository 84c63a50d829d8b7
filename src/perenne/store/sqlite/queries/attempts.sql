-- name: insert_attempt
-- An attempt begins; it is counted from here on. :id, :job, :number, :epoch, :owner, :now
insert into attempt (id, job, number, epoch, owner, claimed_at)
values (:id, :job, :number, :epoch, :owner, :now)

-- name: close_attempt
-- An attempt ends, once. :job, :number, :id, :outcome, :reason, :spent, :active_ms, :diagnostic, :now
update attempt
set
    ended_at = :now,
    outcome = :outcome,
    reason = :reason,
    spent = :spent,
    active_ms = :active_ms,
    diagnostic = :diagnostic
where job = :job
and number = :number
and id = :id
and ended_at is null

-- name: attempts_of_job
-- Every attempt of a job, oldest first. :job_id
select
    attempt.id, job.id, attempt.number, attempt.epoch, attempt.owner, attempt.claimed_at, attempt.ended_at,
    attempt.outcome, attempt.reason, attempt.spent, attempt.active_ms, attempt.diagnostic
from attempt
join job on job.seq = attempt.job
where job.id = :job_id
order by attempt.number

-- name: open_attempts
-- Every attempt that has not ended, in the order of its job.
select
    attempt.id, job.id, attempt.number, attempt.epoch, attempt.owner, attempt.claimed_at, attempt.ended_at,
    attempt.outcome, attempt.reason, attempt.spent, attempt.active_ms, attempt.diagnostic
from job
join attempt on attempt.job = job.seq and attempt.number = job.number
where job.state = 'RUNNING'
order by job.seq
