-- The whole schema, to read. A test applies the migrations to an empty file and compares.
-- Instants are UTC microseconds; ids are lower-case UUIDs; states are checked against core/states.py by a test.

create table store (
    singleton integer primary key check (singleton = 1),
    workspace text not null,
    epoch integer not null check (epoch > 0),
    paused integer not null default 0 check (paused in (0, 1)),
    stopped integer not null default 0 check (stopped in (0, 1)),
    created_at integer not null
) strict;

create table queue (
    name text primary key,
    capacity integer not null check (capacity > 0),
    unfinished integer not null default 0 check (unfinished >= 0),
    paused integer not null default 0 check (paused in (0, 1)),
    stopped integer not null default 0 check (stopped in (0, 1))
) strict, without rowid;

create table job (
    seq integer primary key,
    id text not null unique,
    kind text not null,
    version integer not null,
    queue text not null references queue (name),
    state text not null check (state in (
        'BLOCKED', 'QUEUED', 'RUNNING', 'PAUSED', 'RETRY_WAIT', 'PAUSED_QUOTA', 'RECOVERY_REQUIRED',
        'COMPLETED', 'FAILED', 'CANCELLED', 'DEAD'
    )),
    reason text not null,
    priority integer not null,
    rank integer not null,
    submitted_at integer not null,
    born integer not null,
    due_at integer not null default 0,
    key text,
    unique_key text,
    input blob not null,
    publications text not null,
    requested_at integer not null,
    unmet integer not null default 0 check (unmet >= 0),
    max_attempts integer not null check (max_attempts between 1 and 100),
    spent integer not null default 0 check (spent between 0 and max_attempts),
    number integer not null default 0,
    failures integer not null default 0,
    interruptions integer not null default 0,
    attempt text,
    cancel_asked integer not null default 0 check (cancel_asked in (0, 1)),
    pause_asked integer not null default 0 check (pause_asked in (0, 1)),
    active_ms integer not null default 0,
    active_limit_ms integer,
    progress_done integer not null default 0,
    progress_total integer,
    progress_message text,
    result blob,
    diagnostic text check (length(cast(diagnostic as blob)) <= 2048),
    updated_at integer not null,
    finished_at integer,
    revision integer not null default 1, max_interruptions integer check (max_interruptions between 1 and 100),
    parent text, estimate text,
    on_dependency text not null default 'block' check (on_dependency in ('block', 'fail', 'continue')),
    check ((attempt is not null) = (state = 'RUNNING'))
) strict;

create unique index job_key on job (key) where key is not null;

create unique index job_active on job (unique_key)
    where unique_key is not null and state not in ('COMPLETED', 'FAILED', 'CANCELLED', 'DEAD');

create index job_ripe on job (queue, kind, version, rank, seq)
    where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is null;

create index job_class on job (queue, kind, version, estimate, rank, seq)
    where state in ('QUEUED', 'RETRY_WAIT') and due_at = 0 and estimate is not null;

create index job_due on job (due_at) where state in ('QUEUED', 'RETRY_WAIT') and due_at > 0;

-- By the beginning of their wait: one that began in a time to come tells that the clock was set back.
create index job_backoff on job (updated_at)
    where state in ('QUEUED', 'RETRY_WAIT') and due_at > 0 and number > 0;

create index job_running on job (seq) where state = 'RUNNING';

create index job_blocked on job (seq) where state = 'BLOCKED';

create index job_finished on job (finished_at) where finished_at is not null;

create index job_held on job (seq) where state in ('PAUSED', 'PAUSED_QUOTA', 'RECOVERY_REQUIRED');

create table dependency (
    job integer not null references job (seq),
    needs integer not null references job (seq),
    waived integer not null default 0 check (waived in (0, 1)),
    primary key (job, needs),
    check (job <> needs)
) strict, without rowid;

create index dependency_needs on dependency (needs, job);

create table owner (
    id text primary key,
    pid integer not null,
    boot_id text not null,
    started text not null,
    joined_at integer not null,
    left_at integer
) strict, without rowid;

create index owner_present on owner (joined_at, id) where left_at is null;

create table attempt (
    job integer not null references job (seq),
    number integer not null,
    id text not null,
    epoch integer not null,
    owner text not null references owner (id),
    claimed_at integer not null,
    ended_at integer,
    outcome text check (outcome in (
        'completed', 'failed', 'snoozed', 'paused', 'suspended', 'quota', 'blocked', 'cancelled', 'interrupted', 'doubted'
    )),
    reason text,
    spent integer not null default 1 check (spent in (0, 1)),
    active_ms integer not null default 0,
    diagnostic text check (length(cast(diagnostic as blob)) <= 2048),
    primary key (job, number),
    check ((ended_at is null) = (outcome is null))
) strict, without rowid;

-- The job is not a reference: births have no index, and each removal of a job would look through all lines.
create table history (
    seq integer primary key,
    job integer,
    subject text not null,
    verb text not null,
    from_state text,
    to_state text,
    reason text not null,
    actor text not null,
    at integer not null,
    number integer
) strict;

-- Not the births, which job.born names: a submit then touches one page less.
create index history_of_job on history (job, seq) where from_state is not null;

create table listener (
    name text primary key,
    since integer not null
) strict, without rowid;

create table notice (
    id text primary key,
    listener text not null references listener (name),
    job integer not null references job (seq),
    state text not null,
    at integer not null
) strict, without rowid;

create index notice_of_listener on notice (listener, at);

create index notice_of_job on notice (job);

create index job_parent on job (parent) where parent is not null;

create table app_schema (
    singleton integer primary key check (singleton = 1),
    version integer not null check (version > 0)
) strict;

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

-- The last checkpoint of each job that has one; without a record it lies in a file, whose digest stands here.
create table checkpoint (
    job integer primary key references job (seq),
    attempt text not null,
    number integer not null check (number > 0),
    generation integer not null check (generation > 0),
    sequences integer not null check (sequences >= 0),
    size_bytes integer not null check (size_bytes > 0),
    digest text not null check (length(digest) = 64),
    record blob,
    saved_at integer not null
) strict;

-- The files that a job keeps, by name; their bytes lie under their digest, once for all who have the same.
create table artefact (
    job integer not null references job (seq),
    name text not null,
    media_type text not null,
    size_bytes integer not null check (size_bytes >= 0),
    digest text not null check (length(digest) = 64),
    attempt text not null,
    number integer not null check (number > 0),
    kept_at integer not null,
    primary key (job, name)
) strict, without rowid;

create index artefact_digest on artefact (digest);

-- The sum over all rows above, so that nobody has to count them.
create table artefact_total (
    singleton integer primary key check (singleton = 1),
    size_bytes integer not null check (size_bytes >= 0)
) strict;
