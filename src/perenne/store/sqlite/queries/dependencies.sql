-- name: insert_dependency
-- One job waits for another; waived: that one ended badly, and the job goes on with it.
-- :job, :needs, :waived
insert into dependency (job, needs, waived)
values (:job, :needs, :waived)

-- name: needs_of_job
-- Ids and states of what a job waits for, in the order of submission.
-- :job
select job.id, job.state, dependency.waived
from dependency
join job on job.seq = dependency.needs
where dependency.job = :job
order by dependency.needs

-- name: outcomes_of_needs
-- What a job waited for and what came of it, after one place, at most :limit.
-- :job_id, :after, :limit
select
    needed.seq, needed.id, needed.kind, needed.version, needed.state, dependency.waived, needed.result,
    needed.diagnostic
from dependency
join job as needed on needed.seq = dependency.needs
where dependency.job = (select seq from job where id = :job_id)
and dependency.needs > :after
order by dependency.needs
limit :limit

-- name: dependants_of_job
-- Places of the jobs that wait for this one.
-- :needs
select job, waived
from dependency
where needs = :needs
order by job

-- name: lower_unmet
-- One dependency less is missing.
-- :job
update job
set unmet = unmet - 1
where seq = :job
and unmet > 0

-- name: raise_unmet
-- One dependency more is missing.
-- :job
update job
set unmet = unmet + 1
where seq = :job

-- name: waive_dependencies
-- A person lets the job go on without what is still missing.
-- :job
update dependency
set waived = 1
where job = :job
and needs in (select seq from job where state <> 'COMPLETED')

-- name: waive_dependency
-- What the job waits for ended badly, and it goes on with that.
-- :job, :needs
update dependency
set waived = 1
where job = :job
and needs = :needs

-- name: claim_dependency
-- A waived dependency counts again, since it was started again.
-- :job, :needs
update dependency
set waived = 0
where job = :job
and needs = :needs
