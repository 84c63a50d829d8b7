-- name: insert_store
-- Names the workspace this file belongs to.
-- :workspace, :now
insert into store (singleton, workspace, epoch, created_at)
values (1, :workspace, 1, :now)

-- name: read_store
-- Whose file this is, its epoch and its controls.
select workspace, epoch, paused, stopped
from store

-- name: read_store_for_claim
-- Its epoch and its controls, and whether a due job has an estimate.
select
    workspace, epoch, paused, stopped,
    exists (
        select 1
        from job
        where state in ('QUEUED', 'RETRY_WAIT')
        and due_at = 0
        and estimate is not null
    )
from store

-- name: set_store_controls
-- Pauses, stops or resumes the whole workspace.
-- :paused, :stopped
update store
set paused = :paused, stopped = :stopped

-- name: insert_queue
-- A queue with its bound; an existing one stays as it is.
-- :name, :capacity
insert into queue (name, capacity)
values (:name, :capacity)
on conflict (name) do nothing

-- name: read_queue
-- One queue.
-- :name
select name, capacity, unfinished, paused, stopped
from queue
where name = :name

-- name: list_queues
-- All queues by name.
select name, capacity, unfinished, paused, stopped
from queue
order by name

-- name: set_queue_controls
-- Pauses, stops or resumes one queue.
-- :name, :paused, :stopped
update queue
set paused = :paused, stopped = :stopped
where name = :name

-- name: take_place
-- One more unfinished job, only while the bound allows it: exact, because it is this statement.
-- :name
update queue
set unfinished = unfinished + 1
where name = :name
and unfinished < capacity

-- name: leave_place
-- One unfinished job less.
-- :name
update queue
set unfinished = unfinished - 1
where name = :name

-- name: insert_owner
-- A worker that took its lock, or works again under it.
-- :id, :pid, :boot_id, :started, :now
insert into owner (id, pid, boot_id, started, joined_at)
values (:id, :pid, :boot_id, :started, :now)
on conflict (id) do update
set left_at = null

-- name: owner_present
-- A worker that has not left.
-- :id
select joined_at
from owner
where id = :id
and left_at is null

-- name: close_owner
-- A worker that left, or was proved dead.
-- :id, :now
update owner
set left_at = :now
where id = :id
and left_at is null

-- name: list_owners
-- Workers that have not left, and those that left an attempt behind.
select id, pid, boot_id, started, joined_at
from owner
where left_at is null
or id in (
    select attempt.owner
    from job
    join attempt on attempt.job = job.seq and attempt.number = job.number
    where job.state = 'RUNNING'
)
order by joined_at, id

-- name: read_app_schema
-- How many of the application's own migrations this ledger has seen; no row before the first.
select version
from app_schema

-- name: set_app_schema
-- Notes that one more was taken.
-- :version
insert into app_schema (singleton, version)
values (1, :version)
on conflict (singleton) do update
set version = :version

-- name: app_neighbours
-- Everything of the schema, in an order that stays.
select type, name, tbl_name, sql
from sqlite_schema
order by type, name

-- name: app_references
-- Each table that refers to another one, and that one.
select listed.name, referred."table"
from sqlite_schema as listed
join pragma_foreign_key_list(listed.name) as referred
where listed.type = 'table'
