-- name: schema_version
-- How many migrations this store has seen.
select user_version
from pragma_user_version

-- name: export_counts
-- How many rows of each sort there are, in the order in which they are exported.
select
    (select count(*) from queue),
    (select count(*) from owner),
    (select count(*) from listener),
    (select count(*) from job),
    (select count(*) from attempt),
    (select count(*) from dependency),
    (select count(*) from history),
    (select count(*) from notice)

-- name: export_owners
-- Every worker there ever was, after one id.
-- :after, :limit
select id, pid, boot_id, started, joined_at, left_at
from owner
where id > :after
order by id
limit :limit

-- name: export_listeners
-- Listeners after one name.
-- :after, :limit
select name, since
from listener
where name > :after
order by name
limit :limit

-- name: export_attempts
-- Attempts after one of a job, with the place of the job first.
-- :after, :then, :limit
select
    attempt.job, attempt.number, attempt.id, job.id, attempt.number, attempt.epoch, attempt.owner, attempt.claimed_at,
    attempt.ended_at, attempt.outcome, attempt.reason, attempt.spent, attempt.active_ms, attempt.diagnostic
from attempt
join job on job.seq = attempt.job
where (attempt.job, attempt.number) > (:after, :then)
order by attempt.job, attempt.number
limit :limit

-- name: export_dependencies
-- Dependencies after one of a job, with both places first.
-- :after, :then, :limit
select dependency.job, dependency.needs, job.id, needed.id, dependency.waived
from dependency
join job on job.seq = dependency.job
join job as needed on needed.seq = dependency.needs
where (dependency.job, dependency.needs) > (:after, :then)
order by dependency.job, dependency.needs
limit :limit

-- name: export_notices
-- Notices not yet acknowledged, after one id.
-- :after, :limit
select notice.id, notice.listener, job.id, notice.state, notice.at
from notice
join job on job.seq = notice.job
where notice.id > :after
order by notice.id
limit :limit

-- name: first_rows
-- Whether a ledger holds anything but its queues: how many jobs, lines of history, owners and listeners, at most one
-- each.
select
    (select count(*) from (select 1 from job limit 1)),
    (select count(*) from (select 1 from history limit 1)),
    (select count(*) from (select 1 from attempt limit 1)),
    (select count(*) from (select 1 from notice limit 1))

-- name: import_line
-- The line that the import of the file with this digest left, if it was imported here.
-- :sentence (a pattern)
select seq
from history
where job is null
and verb = 'import'
and reason like :sentence

-- name: set_epoch
-- A higher epoch: every token given before it is stale.
-- :epoch
update store
set epoch = :epoch
where epoch < :epoch

-- name: import_queue
-- A queue as it was, also where one of this name stands empty.
-- :name, :capacity, :unfinished, :paused, :stopped
insert into queue (name, capacity, unfinished, paused, stopped)
values (:name, :capacity, :unfinished, :paused, :stopped)
on conflict (name) do update
set capacity = :capacity, unfinished = :unfinished, paused = :paused, stopped = :stopped

-- name: import_owner
-- A worker of another place; it is not here, so it has left.
-- :id, :pid, :boot_id, :started, :joined_at, :left_at, :now
insert into owner (id, pid, boot_id, started, joined_at, left_at)
values (:id, :pid, :boot_id, :started, :joined_at, coalesce(:left_at, :now))
on conflict do nothing

-- name: import_listener
-- A listener since when it listened.
-- :name, :since
insert into listener (name, since)
values (:name, :since)
on conflict (name) do update
set since = :since

-- name: import_job
-- A job as it was, at its place; no row when its id, its place or one of its keys is taken. One parameter a column, but
-- its birth, which the line about it brings.
-- :seq, :id, :kind, :version, :queue, :state, :reason, :priority, :rank, :submitted_at, :due_at, :key, :unique_key,
-- :input, :publications, :requested_at, :on_dependency, :unmet, :max_attempts, :spent, :number, :failures,
-- :interruptions, :attempt, :cancel_asked, :pause_asked, :active_ms, :active_limit_ms, :progress_done, :progress_total,
-- :progress_message, :result, :diagnostic, :updated_at, :finished_at, :revision, :max_interruptions, :parent,
-- :estimate
insert into job (
    seq, id, kind, version, queue, state, reason, priority, rank, submitted_at, born, due_at, key, unique_key, input,
    publications, requested_at, on_dependency, unmet, max_attempts, spent, number, failures, interruptions, attempt,
    cancel_asked, pause_asked, active_ms, active_limit_ms, progress_done, progress_total, progress_message, result,
    diagnostic, updated_at, finished_at, revision, max_interruptions, parent, estimate
)
values (
    :seq, :id, :kind, :version, :queue, :state, :reason, :priority, :rank, :submitted_at, 0, :due_at, :key, :unique_key,
    :input, :publications, :requested_at, :on_dependency, :unmet, :max_attempts, :spent, :number, :failures,
    :interruptions, :attempt, :cancel_asked, :pause_asked, :active_ms, :active_limit_ms, :progress_done,
    :progress_total, :progress_message, :result, :diagnostic, :updated_at, :finished_at, :revision, :max_interruptions,
    :parent, :estimate
)
on conflict do nothing

-- name: import_attempt
-- An attempt of a job that is there by now. One parameter a column; :job is the job's id.
-- :number, :id, :epoch, :claimed_at, :ended_at, :outcome, :reason, :spent, :active_ms, :diagnostic, :owner, :job
insert into attempt (
    job, number, id, epoch, owner, claimed_at, ended_at, outcome, reason, spent, active_ms, diagnostic
)
select
    job.seq, :number, :id, :epoch, owner.id, :claimed_at, :ended_at, :outcome, :reason, :spent, :active_ms, :diagnostic
from job
join owner on owner.id = :owner
where job.id = :job
on conflict do nothing

-- name: import_dependency
-- A job waits for one that was submitted before it; so no circle can be imported.
-- :job, :needs, :waived
insert into dependency (job, needs, waived)
select job.seq, needed.seq, :waived
from job
join job as needed on needed.id = :needs
where job.id = :job
and needed.seq < job.seq
on conflict do nothing

-- name: import_history
-- A line at its place, about a job that is there or about none. :seq, :job (its id), then the line.
-- :seq, :job, :subject, :verb, :from_state, :to_state, :reason, :actor, :at, :number
insert into history (seq, job, subject, verb, from_state, to_state, reason, actor, at, number)
select
    :seq, (select seq from job where id = :job), :subject, :verb, :from_state, :to_state, :reason, :actor, :at, :number
where :job is null
or exists (select 1 from job where id = :job)
on conflict do nothing

-- name: import_birth
-- The line about a job that came from no state is its first; there is one.
-- :seq, :job
update job
set born = :seq
where id = :job
and born = 0

-- name: import_notice
-- A notice that its listener has not acknowledged.
-- :id, :listener, :job, :state, :at
insert into notice (id, listener, job, state, at)
select :id, listener.name, job.seq, :state, :at
from job
join listener on listener.name = :listener
where job.id = :job
on conflict do nothing
