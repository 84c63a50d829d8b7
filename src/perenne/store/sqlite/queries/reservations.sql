-- name: ripe_classes
-- The best due job of each class (queue, kind, version, estimate), every column and the worst item seen, one seek each.
with recursive head (seq) as (
    select (
        select seq
        from job
        where state in ('QUEUED', 'RETRY_WAIT')
        and due_at = 0
        and estimate is not null
        order by queue, kind, version, estimate, rank, seq
        limit 1
    )
    union all
    select coalesce(
        (
            select job.seq
            from job
            where job.state in ('QUEUED', 'RETRY_WAIT')
            and job.due_at = 0
            and job.estimate is not null
            and job.queue = last.queue
            and job.kind = last.kind
            and job.version = last.version
            and job.estimate > last.estimate
            order by job.estimate, job.rank, job.seq
            limit 1
        ),
        (
            select job.seq
            from job
            where job.state in ('QUEUED', 'RETRY_WAIT')
            and job.due_at = 0
            and job.estimate is not null
            and job.queue = last.queue
            and job.kind = last.kind
            and job.version > last.version
            order by job.version, job.estimate, job.rank, job.seq
            limit 1
        ),
        (
            select job.seq
            from job
            where job.state in ('QUEUED', 'RETRY_WAIT')
            and job.due_at = 0
            and job.estimate is not null
            and job.queue = last.queue
            and job.kind > last.kind
            order by job.kind, job.version, job.estimate, job.rank, job.seq
            limit 1
        ),
        (
            select job.seq
            from job
            where job.state in ('QUEUED', 'RETRY_WAIT')
            and job.due_at = 0
            and job.estimate is not null
            and job.queue > last.queue
            order by job.queue, job.kind, job.version, job.estimate, job.rank, job.seq
            limit 1
        )
    )
    from head
    join job as last on last.seq = head.seq
)
select
    job.seq, job.id, job.kind, job.version, job.queue, job.state, job.reason, job.priority, job.rank, job.submitted_at,
    job.due_at, job.key, job.unique_key, job.input, job.publications, job.requested_at, job.unmet,
    job.max_attempts, job.spent, job.number, job.failures, job.interruptions, job.attempt, job.cancel_asked,
    job.pause_asked, job.active_ms, job.active_limit_ms, job.progress_done, job.progress_total, job.progress_message,
    job.result, job.diagnostic, job.updated_at, job.finished_at, job.revision, job.max_interruptions, job.parent,
    job.estimate, job.on_dependency,
    (
        select worst_item_bytes
        from reservation_usage as usage
        where usage.kind = job.kind
        and usage.version = job.version
        and usage.estimate = job.estimate
    )
from head
join job on job.seq = head.seq

-- name: next_in_class
-- The due job of a class that comes after another one, every column.
-- :queue, :kind, :version, :estimate, :rank, :seq
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
and estimate = :estimate
and state in ('QUEUED', 'RETRY_WAIT')
and due_at = 0
and (rank, seq) > (:rank, :seq)
order by rank, seq
limit 1

-- name: reservations
-- What every running job holds or waits for, with what it needs and how good its place is, oldest job first.
select
    reservation.job, job.id, job.kind, job.version, job.queue, job.rank, job.estimate, reservation.attempt,
    reservation.batch, reservation.memory_bytes, reservation.gpu_memory_bytes, reservation.threads,
    reservation.gpu_slots, reservation.io_slots, reservation.sequence, reservation.at, reservation.waits_for,
    (
        select worst_item_bytes
        from reservation_usage as usage
        where usage.kind = job.kind
        and usage.version = job.version
        and usage.estimate = job.estimate
    )
from reservation
join job on job.seq = reservation.job
order by reservation.job

-- name: reserve
-- A running job holds what it was granted: at its claim, or again after a sequence break.
-- :job, :attempt, :batch, :memory_bytes, :gpu_memory_bytes, :threads, :gpu_slots, :io_slots, :now
insert into reservation (job, attempt, batch, memory_bytes, gpu_memory_bytes, threads, gpu_slots, io_slots, at)
values (:job, :attempt, :batch, :memory_bytes, :gpu_memory_bytes, :threads, :gpu_slots, :io_slots, :now)
on conflict (job) do update
set
    attempt = excluded.attempt,
    batch = excluded.batch,
    memory_bytes = excluded.memory_bytes,
    gpu_memory_bytes = excluded.gpu_memory_bytes,
    threads = excluded.threads,
    gpu_slots = excluded.gpu_slots,
    io_slots = excluded.io_slots,
    sequence = sequence + 1,
    at = excluded.at,
    waits_for = null

-- name: give_back
-- A sequence break of the running attempt: it holds nothing and waits. Twice is once.
-- :job, :attempt, :waits_for, :now
update reservation
set
    batch = 0,
    memory_bytes = 0,
    gpu_memory_bytes = 0,
    threads = 0,
    gpu_slots = 0,
    io_slots = 0,
    at = case when waits_for is null then :now else at end,
    waits_for = :waits_for
where job = :job
and attempt = :attempt

-- name: free_reservation
-- The attempt of a job ends, and what it held is free. Twice is once.
-- :job
delete from reservation
where job = :job

-- name: parked_classes
-- Every class that was refused, with the job that was, since when, and why.
select queue, kind, version, estimate, job, since, waits_for, sentence
from reservation_wait

-- name: park_class
-- A class is refused, in the words of the verdict.
-- :queue, :kind, :version, :estimate, :job, :since, :waits_for, :sentence
insert into reservation_wait (queue, kind, version, estimate, job, since, waits_for, sentence)
values (:queue, :kind, :version, :estimate, :job, :since, :waits_for, :sentence)
on conflict (queue, kind, version, estimate) do update
set
    job = excluded.job,
    since = excluded.since,
    waits_for = excluded.waits_for,
    sentence = excluded.sentence

-- name: unpark_class
-- A class is refused no more.
-- :queue, :kind, :version, :estimate
delete from reservation_wait
where queue = :queue
and kind = :kind
and version = :version
and estimate = :estimate

-- name: offer_capacity
-- What a worker can give away at most on its machine (JSON).
-- :owner, :offered
insert into reservation_offer (owner, offered)
values (:owner, :offered)
on conflict (owner) do update
set offered = excluded.offered

-- name: capacities
-- What each worker that has not left can give away, oldest first (JSON).
select capacity.owner, capacity.offered
from reservation_offer as capacity
join owner on owner.id = capacity.owner
where owner.left_at is null
order by owner.joined_at, owner.id

-- name: add_usage
-- What a sequence of a class really took; peaks may be unknown.
-- :kind, :version, :estimate, :items, :duration_ms, :peak_bytes, :item_bytes
insert into reservation_usage (kind, version, estimate, sequences, items, duration_ms, peak_bytes, worst_item_bytes)
values (:kind, :version, :estimate, 1, :items, :duration_ms, :peak_bytes, :item_bytes)
on conflict (kind, version, estimate) do update
set
    sequences = sequences + 1,
    items = items + excluded.items,
    duration_ms = duration_ms + excluded.duration_ms,
    peak_bytes = max(coalesce(peak_bytes, 0), coalesce(excluded.peak_bytes, 0)),
    worst_item_bytes = nullif(max(coalesce(worst_item_bytes, 0), coalesce(excluded.worst_item_bytes, 0)), 0)

-- name: usages
-- What the sequences of each class took so far.
select kind, version, estimate, sequences, items, duration_ms, peak_bytes, worst_item_bytes
from reservation_usage as usage
order by kind, version, estimate
