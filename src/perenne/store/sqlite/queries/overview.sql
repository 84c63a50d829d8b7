-- name: overview_store
-- Epoch, controls and revision of the whole ledger, and when its newest line was written.
select
    epoch, paused, stopped, (select coalesce(max(seq), 0) from history),
    coalesce((select at from history order by seq desc limit 1), created_at)
from store

-- name: unfinished_places
-- Places of unfinished jobs, at most :limit, with what tells whether a line about them is still true: those that run,
-- then those that wait for somebody, then the others.
-- :limit
select seq, revision, due_at
from job
where seq in (
    select seq from (select seq from job where state = 'RUNNING' order by seq limit :limit)
    union all
    select seq from (
        select seq from job where state in ('PAUSED', 'PAUSED_QUOTA', 'RECOVERY_REQUIRED') order by seq limit :limit
    )
    union all
    select seq from (select seq from job where state = 'BLOCKED' order by seq limit :limit)
    union all
    select seq from (
        select seq from job where state in ('QUEUED', 'RETRY_WAIT') and due_at > 0 order by due_at limit :limit
    )
    union all
    select seq from (
        select seq from job where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is null limit :limit
    )
    union all
    select seq from (
        select seq from job where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is not null limit :limit
    )
)
order by
    case state
        when 'RUNNING' then 0
        when 'RECOVERY_REQUIRED' then 1
        when 'BLOCKED' then 2
        when 'PAUSED' then 3
        when 'PAUSED_QUOTA' then 3
        else 4
    end,
    seq
limit :limit

-- name: finished_places
-- Places of the jobs that ended last, newest first, at most :limit, with what tells whether a line is still true.
-- :limit
select seq, revision, due_at
from job
where finished_at is not null
order by finished_at desc, seq desc
limit :limit

-- name: places_in_states
-- Places of jobs in some states, newest first, at most :limit, with what tells whether a line is still true.
-- :states (JSON), :limit
select seq, revision, due_at
from job
where state in (select value from json_each(:states))
order by seq desc
limit :limit

-- name: lines_at
-- Jobs at these places as short lines, in no order.
-- :places (JSON)
select
    seq,
    id, kind, version, queue, state, reason, priority, number, spent, max_attempts, failures, interruptions,
    cancel_asked, pause_asked, progress_done, progress_total, substr(progress_message, 1, 120),
    substr(diagnostic, 1, 240), submitted_at, due_at, updated_at, finished_at, revision, parent
from job
where seq in (select value from json_each(:places))

-- name: moves_since
-- How many jobs went from which state to which, in the lines of history after :after.
-- :after
select from_state, to_state, count(*)
from history
where seq > :after
and to_state is not null
group by from_state, to_state

-- name: removals_since
-- Whether the lines of history after :after tell of jobs that came or went without lines of their own.
-- :after
select count(*)
from history
where seq > :after
and verb in ('purge', 'import')

-- name: overview_workers
-- Workers that have not left, with the number of attempts that each of them runs.
select owner.id, owner.pid, owner.joined_at, count(attempt.job)
from owner
left join (
    select attempt.job, attempt.owner
    from job
    join attempt on attempt.job = job.seq and attempt.number = job.number
    where job.state = 'RUNNING'
) as attempt on attempt.owner = owner.id
where owner.left_at is null
group by owner.id
order by owner.joined_at, owner.id

-- name: ids_between
-- Ids from :low to before :high, at most :limit.
-- :low, :high, :limit
select id
from job
where id >= :low
and id < :high
order by id
limit :limit
