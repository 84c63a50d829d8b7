-- name: running_lives
-- Attempts that run: their job, owner and start, and the last moment that nobody but their owner can have written. A
-- row that somebody else touched last (a wish, a control) says nothing about the owner.
-- :running, :limit
select
    job.id, attempt.number, attempt.owner, owner.pid, owner.left_at, attempt.claimed_at,
    max(
        attempt.claimed_at,
        coalesce((
            select max(history.at)
            from history
            where history.job = job.seq
            and history.from_state is not null
            and history.actor = 'worker:' || attempt.owner
        ), 0),
        case
            when exists (
                select 1
                from history
                where history.job = job.seq
                and history.from_state is not null
                and history.at = job.updated_at
                and history.actor <> 'worker:' || attempt.owner
            ) then 0
            else job.updated_at
        end
    )
from job
join attempt on attempt.job = job.seq and attempt.number = job.number
join owner on owner.id = attempt.owner
where job.state = :running
order by job.seq
limit :limit

-- name: stuck_jobs
-- BLOCKED jobs that wait for something else than other jobs.
-- :reasons (JSON: those that do), :limit
select id, kind, version, reason, diagnostic
from job
where state = 'BLOCKED'
and reason not in (select value from json_each(:reasons))
order by seq
limit :limit

-- name: unfinished_kinds
-- Every kind that has unfinished jobs, with their number.
-- :final (JSON)
select kind, version, count(*)
from job
where state not in (select value from json_each(:final))
group by kind, version
order by kind, version

-- name: unknown_jobs
-- Those of the ids that belong to no job.
-- :ids (JSON)
select value
from json_each(:ids)
where not exists (select 1 from job where job.id = json_each.value)

-- name: jobs_in_doubt
-- Jobs that only a person can settle.
-- :state, :limit
select id, kind, version, reason, diagnostic
from job
where state = :state
order by seq
limit :limit
