-- name: artefacts_of_job
-- What a job keeps, by name.
-- :job_id
select artefact.name, media_type, size_bytes, digest, artefact.attempt, artefact.number, kept_at
from artefact
join job on job.seq = artefact.job
where job.id = :job_id
order by artefact.name

-- name: artefacts_of_need
-- What a job keeps that another one waited for, by name, after one name, at most :limit.
-- :job_id, :needed, :after, :limit
select artefact.name, media_type, size_bytes, digest, artefact.attempt, artefact.number, kept_at
from dependency
join job as needed on needed.seq = dependency.needs
join artefact on artefact.job = needed.seq
where dependency.job = (select seq from job where id = :job_id)
and needed.id = :needed
and artefact.name > :after
order by artefact.name
limit :limit

-- name: artefact_sizes
-- How many bytes the job keeps, and how many all jobs do.
-- :job_id
select
    (
        select coalesce(sum(artefact.size_bytes), 0)
        from artefact
        join job on job.seq = artefact.job
        where job.id = :job_id
    ),
    size_bytes
from artefact_total

-- name: insert_artefact
-- One more artefact of a job, by the attempt that holds it.
-- :job_id, :name, :media_type, :size_bytes, :digest, :attempt, :number, :now
insert into artefact (job, name, media_type, size_bytes, digest, attempt, number, kept_at)
select seq, :name, :media_type, :size_bytes, :digest, :attempt, :number, :now
from job
where id = :job_id

-- name: grow_artefacts
-- So many bytes more are kept.
-- :size_bytes
update artefact_total set size_bytes = size_bytes + :size_bytes

-- name: shrink_artefacts_by
-- What these jobs keep is counted no more.
-- :jobs (JSON)
update artefact_total
set size_bytes = size_bytes - (
    select coalesce(sum(artefact.size_bytes), 0)
    from artefact
    where job in (select value from json_each(:jobs))
)
where exists (
    select 1
    from artefact
    where job in (select value from json_each(:jobs))
)

-- name: delete_artefacts_of
-- What these jobs kept; the bytes go once no job names them.
-- :jobs (JSON)
delete from artefact
where job in (select value from json_each(:jobs))

-- name: named_digests
-- Digests of artefacts after :after, at most :limit, each once, with one job that keeps it.
-- :after, :limit
select artefact.digest, artefact.size_bytes, min(job.id)
from artefact
join job on job.seq = artefact.job
where artefact.digest > :after
group by artefact.digest, artefact.size_bytes
order by artefact.digest
limit :limit

-- name: unnamed_digests
-- Those of the digests that no artefact has.
-- :digests (JSON)
select value
from json_each(:digests)
where value not in (select digest from artefact)
