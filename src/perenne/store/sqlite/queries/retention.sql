-- name: purge_edge
-- The newest finished job that is not among the :keep newest in these states.
-- :states (JSON), :keep
select finished_at, seq
from job
where finished_at is not null
and state in (select value from json_each(:states))
order by finished_at desc, seq desc
limit 1
offset :keep

-- name: purge_candidates
-- Jobs in these states that ended before one place, newest end first; never the newest job of all, since its place
-- would be given twice.
-- :states (JSON), :before_at, :before_seq, :limit
select finished_at, seq
from job
where finished_at is not null
and (finished_at, seq) < (:before_at, :before_seq)
and state in (select value from json_each(:states))
and seq < (select max(seq) from job)
order by finished_at desc, seq desc
limit :limit

-- name: purge_sizes
-- Which of the named jobs may still go, how many rows each has in all, and whether any job names it, newest end first.
-- A child stays while its parent may ask for it again.
-- :jobs, :states (JSON), :before_at, :before_seq
select
    seq, id,
    2
    + (select count(*) from attempt where attempt.job = job.seq)
    + (select count(*) from dependency where dependency.job = job.seq)
    + (select count(*) from history where history.job = job.seq and history.from_state is not null)
    + (select count(*) from notice where notice.job = job.seq)
    + (select count(*) from checkpoint where checkpoint.job = job.seq)
    + (select count(*) from artefact where artefact.job = job.seq),
    exists (select 1 from dependency where dependency.needs = job.seq)
from job
where seq in (select value from json_each(:jobs))
and finished_at is not null
and (finished_at, seq) < (:before_at, :before_seq)
and state in (select value from json_each(:states))
and seq < (select max(seq) from job)
and not exists (
    select 1
    from job as parent
    where parent.id = job.parent
    and parent.finished_at is null
)
order by finished_at desc, seq desc

-- name: named_by_others
-- One row when a job outside the given ones names this one as what it waits for.
-- :needs, :jobs (JSON)
select 1
from dependency
where needs = :needs
and job not in (select value from json_each(:jobs))
limit 1

-- name: delete_notices_of
-- Notices that nobody fetched.
-- :jobs (JSON)
delete from notice
where job in (select value from json_each(:jobs))

-- name: delete_births_of
-- The first line about each of these jobs, while the job still says where it stands.
-- :jobs (JSON)
delete from history
where seq in (select born from job where seq in (select value from json_each(:jobs)))

-- name: delete_history_of
-- Every other line about these jobs.
-- :jobs (JSON)
delete from history
where job in (select value from json_each(:jobs))
and from_state is not null

-- name: detach_births_of
-- The first line about each of these jobs stays; its subject still names the job.
-- :jobs (JSON)
update history
set job = null
where seq in (select born from job where seq in (select value from json_each(:jobs)))

-- name: detach_history_of
-- Every other line about these jobs stays too.
-- :jobs (JSON)
update history
set job = null
where job in (select value from json_each(:jobs))
and from_state is not null

-- name: delete_attempts_of
-- Every attempt of these jobs.
-- :jobs (JSON)
delete from attempt
where job in (select value from json_each(:jobs))

-- name: delete_dependencies_of
-- What these jobs waited for.
-- :jobs (JSON)
delete from dependency
where job in (select value from json_each(:jobs))

-- name: delete_jobs
-- The jobs themselves, once nothing names them.
-- :jobs (JSON)
delete from job
where seq in (select value from json_each(:jobs))

-- name: insert_line_at
-- One line about the whole workspace at a given place.
-- :seq, :verb, :reason, :actor, :now
insert into history (seq, subject, verb, reason, actor, at)
values (:seq, 'workspace', :verb, :reason, :actor, :now)

-- name: delete_line
-- One line of history that a newer one replaces.
-- :seq
delete from history
where seq = :seq

-- name: count_attempts
-- How many attempts there are, counted no further than :most.
-- :most
select count(*)
from (select 1 from attempt limit :most)

-- name: forgettable_owners
-- Workers that left before an instant and that no attempt names, oldest first.
-- :left_before
select id
from owner
where left_at < :left_before
and id not in (select owner from attempt)
order by left_at, id

-- name: forget_owners
-- Those of the workers that left and that no attempt names.
-- :ids (JSON)
delete from owner
where id in (select value from json_each(:ids))
and left_at is not null
and id not in (select owner from attempt)
