-- name: insert_birth
-- The first line about the job that this transaction inserted last, at the place the job keeps.
-- :actor
insert into history (seq, job, subject, verb, to_state, reason, actor, at)
select born, seq, 'job:' || id, 'submit', state, reason, :actor, submitted_at
from job
where seq = last_insert_rowid()

-- name: insert_history
-- One line that stays.
-- :job, :subject, :verb, :from_state, :to_state, :reason, :actor, :now, :number
insert into history (job, subject, verb, from_state, to_state, reason, actor, at, number)
values (:job, :subject, :verb, :from_state, :to_state, :reason, :actor, :now, :number)

-- name: list_history
-- Lines about anything after :after, at most :limit.
-- :after, :limit
select
    history.seq, job.id, history.subject, history.verb, history.from_state, history.to_state, history.reason,
    history.actor, history.at, history.number
from history
left join job on job.seq = history.job
where history.seq > :after
order by history.seq
limit :limit

-- name: history_of_job
-- Lines about one job after :after, at most :limit: its birth, then what followed.
-- :job_id, :after, :limit
select
    history.seq, job.id, history.subject, history.verb, history.from_state, history.to_state, history.reason,
    history.actor, history.at, history.number
from job
join history on history.seq = job.born
where job.id = :job_id
and history.seq > :after
union all
select
    history.seq, job.id, history.subject, history.verb, history.from_state, history.to_state, history.reason,
    history.actor, history.at, history.number
from job
join history on history.job = job.seq and history.from_state is not null
where job.id = :job_id
and history.seq > :after
order by 1
limit :limit

-- name: last_revision
-- The number of the newest line: the revision of the whole ledger.
select coalesce(max(seq), 0)
from history

-- name: line_after
-- A line about one subject by one actor at one instant, among those after :since.
-- :since, :subject, :actor, :at
select seq
from history
where seq > :since
and subject = :subject
and actor = :actor
and at = :at
limit 1

-- name: find_listener
-- A durable listener.
-- :name
select since
from listener
where name = :name

-- name: find_notice
-- A notice that is not acknowledged yet.
-- :id
select job
from notice
where id = :id

-- name: insert_listener
-- Someone who wants a notice of every end from now on.
-- :name, :now
insert into listener (name, since)
values (:name, :now)
on conflict (name) do nothing

-- name: insert_notices
-- One notice a listener, in the transaction that ends the job; the id is stable.
-- :job, :state, :now, :job_id, :revision
insert into notice (id, listener, job, state, at)
select :job_id || '.' || :revision || '.' || name, name, :job, :state, :now
from listener

-- name: pending_notices
-- Notices not yet acknowledged by one listener, oldest first.
-- :listener, :limit
select notice.id, job.id, notice.state, notice.at
from notice
join job on job.seq = notice.job
where notice.listener = :listener
order by notice.at, notice.id
limit :limit

-- name: delete_notice
-- The listener has dealt with it.
-- :id
delete from notice
where id = :id
