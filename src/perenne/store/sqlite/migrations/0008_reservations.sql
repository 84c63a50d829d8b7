-- What jobs say they need, what they hold while they run, and which classes of them wait for it.
alter table job add column estimate text;

drop index job_ripe;

create index job_ripe on job (queue, kind, version, rank, seq)
    where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is null;

create index job_class on job (queue, kind, version, estimate, rank, seq)
    where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is not null;

-- One for each running job with an estimate; after a sequence break it holds nothing and says what it waits for.
create table reservation (
    job integer primary key references job (seq),
    attempt text not null,
    batch integer not null check (batch >= 0),
    memory_bytes integer not null check (memory_bytes >= 0),
    gpu_memory_bytes integer not null check (gpu_memory_bytes >= 0),
    threads integer not null check (threads >= 0),
    gpu_slots integer not null check (gpu_slots >= 0),
    io_slots integer not null check (io_slots >= 0),
    sequence integer not null default 1,
    at integer not null,
    waits_for text,
    check (waits_for is null or batch + memory_bytes + gpu_memory_bytes + threads + gpu_slots + io_slots = 0)
) strict;

create table reservation_wait (
    queue text not null,
    kind text not null,
    version integer not null,
    estimate text not null,
    job integer not null,
    since integer not null,
    waits_for text not null,
    sentence text not null,
    primary key (queue, kind, version, estimate)
) strict, without rowid;

create table reservation_offer (
    owner text primary key references owner (id) on delete cascade,
    offered text not null
) strict, without rowid;

create table reservation_usage (
    kind text not null,
    version integer not null,
    estimate text not null,
    sequences integer not null,
    items integer not null,
    duration_ms integer not null,
    peak_bytes integer,
    worst_item_bytes integer,
    primary key (kind, version, estimate)
) strict, without rowid;
