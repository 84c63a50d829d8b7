-- name: insert_job
-- A new job, or no row when its id, its key or its active key is taken. `intake` gives the parameters in this order.
-- :id, :kind, :version, :queue, :state, :reason, :priority, :rank, :now, :due_at, :key, :unique_key, :input,
-- :publications, :requested_at, :on_dependency, :unmet, :max_attempts, :active_limit_ms,
-- :max_interruptions, :parent, :estimate
insert into job (
    id, kind, version, queue, state, reason, priority, rank, submitted_at, born, due_at, key, unique_key, input,
    publications, requested_at, on_dependency, unmet, max_attempts, active_limit_ms, updated_at,
    max_interruptions, parent, estimate
)
values (
    :id, :kind, :version, :queue, :state, :reason, :priority, :rank, :now,
    (select coalesce(max(seq), 0) + 1 from history), :due_at, :key, :unique_key, :input,
    :publications, :requested_at, :on_dependency, :unmet, :max_attempts, :active_limit_ms, :now,
    :max_interruptions, :parent, :estimate
)
on conflict do nothing

-- name: job_by_id
-- One job, every column.
-- :id
select
    seq, id, kind, version, queue, state, reason, priority, rank, submitted_at, due_at, key, unique_key, input,
    publications, requested_at, unmet, max_attempts, spent, number, failures, interruptions, attempt,
    cancel_asked, pause_asked, active_ms, active_limit_ms, progress_done, progress_total, progress_message, result,
    diagnostic, updated_at, finished_at, revision, max_interruptions, parent, estimate,
    on_dependency
from job
where id = :id

-- name: job_by_key
-- The job of a client key, every column.
-- :key
select
    seq, id, kind, version, queue, state, reason, priority, rank, submitted_at, due_at, key, unique_key, input,
    publications, requested_at, unmet, max_attempts, spent, number, failures, interruptions, attempt,
    cancel_asked, pause_asked, active_ms, active_limit_ms, progress_done, progress_total, progress_message, result,
    diagnostic, updated_at, finished_at, revision, max_interruptions, parent, estimate,
    on_dependency
from job
where key = :key

-- name: job_by_seq
-- One job by its place of submission, every column.
-- :seq
select
    seq, id, kind, version, queue, state, reason, priority, rank, submitted_at, due_at, key, unique_key, input,
    publications, requested_at, unmet, max_attempts, spent, number, failures, interruptions, attempt,
    cancel_asked, pause_asked, active_ms, active_limit_ms, progress_done, progress_total, progress_message, result,
    diagnostic, updated_at, finished_at, revision, max_interruptions, parent, estimate,
    on_dependency
from job
where seq = :seq

-- name: list_jobs
-- Jobs in the order of submission, after :after, at most :limit; all or those in :state.
-- :after, :state, :limit
select
    seq, id, kind, version, queue, state, reason, priority, rank, submitted_at, due_at, key, unique_key, input,
    publications, requested_at, unmet, max_attempts, spent, number, failures, interruptions, attempt,
    cancel_asked, pause_asked, active_ms, active_limit_ms, progress_done, progress_total, progress_message, result,
    diagnostic, updated_at, finished_at, revision, max_interruptions, parent, estimate,
    on_dependency
from job
where seq > :after
and (:state is null or state = :state)
order by seq
limit :limit

-- name: blocked_jobs
-- Ids of the jobs that are BLOCKED, in the order of submission.
select id
from job
where state = 'BLOCKED'
order by seq

-- name: active_job
-- The unfinished job of an active key.
-- :unique_key
select id
from job
where unique_key = :unique_key
and state not in ('COMPLETED', 'FAILED', 'CANCELLED', 'DEAD')

-- name: best_in_lane
-- The first due jobs of one queue and kind that hold nothing, by rank, then submission, every column.
-- :queue, :kind, :version, :limit
select
    seq, id, kind, version, queue, state, reason, priority, rank, submitted_at, due_at, key, unique_key, input,
    publications, requested_at, unmet, max_attempts, spent, number, failures, interruptions, attempt,
    cancel_asked, pause_asked, active_ms, active_limit_ms, progress_done, progress_total, progress_message, result,
    diagnostic, updated_at, finished_at, revision, max_interruptions, parent, estimate,
    on_dependency
from job
where queue = :queue
and kind = :kind
and version = :version
and state in ('QUEUED', 'RETRY_WAIT')
and due_at = 0
and estimate is null
order by rank, seq
limit :limit

-- name: ripen
-- Marks jobs whose time has come as due, in bounded steps.
-- :now, :limit
update job
set due_at = 0
where seq in (
    select seq
    from job
    where state in ('QUEUED', 'RETRY_WAIT')
    and due_at > 0
    and due_at <= :now
    order by due_at
    limit :limit
)

-- name: ripen_after_step
-- Marks jobs as due whose wait for another attempt began in a time to come: the clock was set back. In bounded steps.
-- :now, :limit
update job
set due_at = 0
where seq in (
    select seq
    from job
    where state in ('QUEUED', 'RETRY_WAIT')
    and due_at > 0
    and number > 0
    and updated_at > :now
    order by updated_at
    limit :limit
)

-- name: next_due
-- The earliest time at which a waiting job becomes due.
select min(due_at)
from job
where state in ('QUEUED', 'RETRY_WAIT')
and due_at > 0

-- name: start_attempt
-- Gives a waiting job to an attempt, if it still stands as it was read.
-- :seq, :from_state, :revision, :attempt, :now
update job
set
    state = 'RUNNING',
    reason = 'claimed',
    due_at = 0,
    attempt = :attempt,
    number = number + 1,
    spent = spent + 1,
    progress_done = 0,
    progress_total = null,
    progress_message = null,
    updated_at = :now,
    revision = revision + 1
where seq = :seq
and state = :from_state
and revision = :revision
and spent < max_attempts

-- name: end_attempt
-- Ends the running attempt, only by the holder of the whole token.
-- :attempt, :number, :epoch, :to_state, :reason, :due_at, :spent, :failed, :interrupted, :active_ms, :result,
-- :diagnostic, :finished_at, :now, :seq
update job
set
    state = :to_state,
    reason = :reason,
    due_at = :due_at,
    attempt = null,
    spent = :spent,
    failures = failures + :failed,
    interruptions = interruptions + :interrupted,
    active_ms = active_ms + :active_ms,
    pause_asked = 0,
    result = :result,
    diagnostic = :diagnostic,
    finished_at = :finished_at,
    updated_at = :now,
    revision = revision + 1
where seq = :seq
and state = 'RUNNING'
and attempt = :attempt
and number = :number
and (select epoch from store) = :epoch

-- name: move_job
-- Moves a job that is not running, if it still stands as it was read.
-- :seq, :from_state, :revision, :to_state, :reason, :due_at, :spent, :failures, :interruptions, :unmet, :cancel_asked,
-- :active_ms, :diagnostic, :finished_at, :now
update job
set
    state = :to_state,
    reason = :reason,
    due_at = :due_at,
    spent = :spent,
    failures = :failures,
    interruptions = :interruptions,
    unmet = :unmet,
    cancel_asked = :cancel_asked,
    active_ms = :active_ms,
    diagnostic = :diagnostic,
    finished_at = :finished_at,
    updated_at = :now,
    revision = revision + 1
where seq = :seq
and state = :from_state
and state <> 'RUNNING'
and revision = :revision

-- name: note_blocked
-- Says why a blocked job stays blocked; its state does not move, and the time of its last move stays.
-- :seq, :reason, :diagnostic
update job
set
    reason = :reason,
    diagnostic = :diagnostic,
    revision = revision + 1
where seq = :seq
and state = 'BLOCKED'

-- name: ask_job
-- Notes what is asked of a running attempt.
-- :seq, :attempt, :cancel_asked, :pause_asked, :now
update job
set
    cancel_asked = :cancel_asked,
    pause_asked = :pause_asked,
    updated_at = :now,
    revision = revision + 1
where seq = :seq
and state = 'RUNNING'
and attempt = :attempt

-- name: set_progress
-- Progress of the running attempt, only by the holder of the whole token.
-- :done, :total, :message, :now, :job_id, :attempt, :number, :epoch
update job
set
    progress_done = :done,
    progress_total = :total,
    progress_message = :message,
    updated_at = :now,
    revision = revision + 1
where id = :job_id
and state = 'RUNNING'
and attempt = :attempt
and number = :number
and (select epoch from store) = :epoch

-- name: token_holds
-- One row while the token is current, with what is asked of the attempt.
-- :job_id, :attempt, :number, :epoch
select cancel_asked, pause_asked
from job
where id = :job_id
and state = 'RUNNING'
and attempt = :attempt
and number = :number
and (select epoch from store) = :epoch

-- name: asked_of_running
-- What is asked of each running attempt, with the controls of its queue.
select job.attempt, job.cancel_asked, job.pause_asked, queue.stopped
from job
join queue on queue.name = job.queue
where job.state = 'RUNNING'

-- name: count_states
-- How many jobs stand in each state.
select state, count(*)
from job
group by state
order by state
