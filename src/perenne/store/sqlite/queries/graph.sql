-- name: graph_start
-- Places from which a picture of everything is drawn: unfinished jobs, then those that ended last, at most :limit.
-- :limit
select seq
from (
    select seq, 0 as ended
    from (select seq from job where state = 'RUNNING' order by seq limit :limit)
    union all
    select seq, 0 as ended
    from (select seq from job where state = 'BLOCKED' order by seq limit :limit)
    union all
    select seq, 0 as ended
    from (
        select seq from job where state in ('PAUSED', 'PAUSED_QUOTA', 'RECOVERY_REQUIRED') order by seq limit :limit
    )
    union all
    select seq, 0 as ended
    from (select seq from job where state in ('QUEUED', 'RETRY_WAIT') and due_at > 0 order by due_at limit :limit)
    union all
    select seq, 0 as ended
    from (
        select seq from job where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is null limit :limit
    )
    union all
    select seq, 0 as ended
    from (
        select seq from job where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is not null limit :limit
    )
    union all
    select seq, 1 as ended
    from (
        select seq from job where finished_at is not null order by finished_at desc, seq desc limit :limit
    )
)
order by ended, seq
limit :limit

-- name: graph_neighbours
-- Places of the jobs beside these: what they wait for, what waits for them, their parents and their children.
-- :places (JSON), :limit
select needs as place
from dependency
where job in (select value from json_each(:places))
union
select job as place
from dependency
where needs in (select value from json_each(:places))
union
select parent.seq as place
from job
join job as parent on parent.id = job.parent
where job.seq in (select value from json_each(:places))
union
select child.seq as place
from job
join job as child on child.parent = job.id
where job.seq in (select value from json_each(:places))
order by place
limit :limit

-- name: graph_nodes
-- Jobs at these places, in the order of submission.
-- :places (JSON)
select seq, id, kind, version, state, reason, parent, on_dependency, unmet, submitted_at, finished_at
from job
where seq in (select value from json_each(:places))
order by seq

-- name: graph_edges
-- Who of these jobs waits for whom of them, in the order of submission.
-- :places (JSON)
select job, needs, waived
from dependency
where job in (select value from json_each(:places))
and needs in (select value from json_each(:places))
order by job, needs

-- name: graph_attempts
-- The attempts of these jobs, in the order of their beginning, at most :limit.
-- :places (JSON), :limit
select job, number, owner, claimed_at, ended_at, outcome
from attempt
where job in (select value from json_each(:places))
order by claimed_at, job, number
limit :limit
