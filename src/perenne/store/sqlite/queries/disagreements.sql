-- name: wrong_counters
-- Queues that count their unfinished jobs wrongly, with what they say and what is.
-- :final (JSON), :limit
select queue.name, queue.unfinished, count(job.seq) as real
from queue
left join job on job.queue = queue.name and job.state not in (select value from json_each(:final))
group by queue.name
having queue.unfinished <> real
order by queue.name
limit :limit

-- name: wrong_unmet
-- Jobs that count their missing dependencies wrongly, with what they say and what is.
-- :completed, :limit
select job.id, job.unmet, coalesce(missing.count, 0)
from job
left join (
    select dependency.job, count(*) as count
    from dependency
    join job as needed on needed.seq = dependency.needs
    where not dependency.waived
    and needed.state <> :completed
    group by dependency.job
) as missing on missing.job = job.seq
where job.unmet <> coalesce(missing.count, 0)
order by job.seq
limit :limit

-- name: running_without_attempt
-- Jobs that run, but whose attempt is absent, ended or another one.
-- :running, :limit
select job.id, job.number
from job
left join attempt on attempt.job = job.seq and attempt.number = job.number
where job.state = :running
and (attempt.id is null or attempt.id <> job.attempt or attempt.ended_at is not null)
order by job.seq
limit :limit

-- name: attempt_without_running
-- Attempts that are open, although their job does not run them.
-- :running, :limit
select job.id, job.state, attempt.number
from attempt
join job on job.seq = attempt.job
where attempt.ended_at is null
and (job.state <> :running or job.attempt <> attempt.id or job.number <> attempt.number)
order by attempt.job, attempt.number
limit :limit

-- name: wrong_births
-- Jobs whose first line of history is not where they say.
-- :limit
select job.id, job.born
from job
left join history on history.seq = job.born
where history.job is null
or history.job <> job.seq
or history.from_state is not null
order by job.seq
limit :limit
