"""What the end or the new start of one job means for those that wait for it, in the transaction that brings it.

What does not live here: which change that is (`core.decide`), and how it is written (`writes`).
"""

from __future__ import annotations

from collections import deque

from perenne.core import events
from perenne.core.job import Job, OnDependency
from perenne.core.states import FINAL, JobState
from perenne.store import writes
from perenne.store.driver import Transaction

_WAITS = frozenset({JobState.QUEUED, JobState.RETRY_WAIT})
# Why a job is BLOCKED, as far as dependencies are the reason; any other is lifted by whoever can lift it.
_BY_DEPENDENCIES = frozenset({"waiting_for_dependencies", "dependency_failed", "dependency_requeued"})

_SETTLED_AGAIN = frozenset({"dependency_failed", "tool_missing", "confinement_missing"})


def goes_on_after(policy: OnDependency, state: JobState) -> bool:
    """Whether a job of this policy goes on with a dependency in this state, which is not COMPLETED."""
    return policy is OnDependency.CONTINUE and state in FINAL and state is not JobState.COMPLETED


def settle_blocked(tx: Transaction, job: Job, *, actor: str, now: int) -> list[Job]:
    """A BLOCKED job whose dependency ended badly fails, if that is its policy; else it says so. Answers as `move`."""
    dependency = _bad_need(tx, job) if job.state is JobState.BLOCKED else None
    if dependency is None:
        return [job]
    settled = _meet_bad_end(tx, job, dependency, actor, now)
    return [settled, *free(tx, settled, actor, now)]


def _bad_need(tx: Transaction, job: Job) -> str | None:
    """The first dependency that ended badly and that nobody went on without."""
    needs = tx.all("needs_of_job", job=job.seq)
    return next(
        (id for id, state, waived in needs if state in FINAL and state != JobState.COMPLETED and not waived), None
    )


def free(tx: Transaction, ended: Job, actor: str, now: int) -> list[Job]:
    """Release or fail whoever waited for this job, in the transaction that ends it; answers who failed thereby."""
    ends = deque([ended] if ended.is_final else [])
    also_ended: list[Job] = []
    while ends:
        end_of = ends.popleft()
        for place, waived in tx.all("dependants_of_job", needs=end_of.seq):
            if not waived:
                freed = _meet_end(tx, place, end_of, actor, now)
                if freed is not None:
                    ends.append(freed)
                    also_ended.append(freed)
    return also_ended


def _meet_end(tx: Transaction, place: int, ended: Job, actor: str, now: int) -> Job | None:
    """What the end of a dependency does to one job that waits; the job, if it ended thereby."""
    completed = ended.state is JobState.COMPLETED
    if completed:
        tx.run("lower_unmet", job=place)
    waiting = writes.read(tx, place)
    if goes_on_after(waiting.on_dependency, ended.state):
        tx.run("waive_dependency", job=place, needs=ended.seq)
        tx.run("lower_unmet", job=place)
        waiting, completed = writes.read(tx, place), True
    if waiting.state is not JobState.BLOCKED:
        return None
    if not completed:
        met = _meet_bad_end(tx, waiting, ended.id, actor, now)
        return met if met.is_final else None
    if not waiting.unmet and waiting.reason in _BY_DEPENDENCIES:
        reason = "dependencies_ended" if waiting.on_dependency is OnDependency.CONTINUE else "dependencies_completed"
        writes.step(tx, waiting, events.Release(reason), actor, now)
    return None


def _meet_bad_end(tx: Transaction, waiting: Job, dependency: str, actor: str, now: int) -> Job:
    if waiting.on_dependency is OnDependency.FAIL:
        return writes.step(tx, waiting, events.FailDependency(dependency), actor, now)
    if waiting.reason in _BY_DEPENDENCIES:
        writes.note(tx, waiting, "dependency_failed", f"dependency {dependency} ended badly")
    return writes.read(tx, waiting.seq)


def wait_again(tx: Transaction, reopened: Job, *, actor: str, now: int) -> None:
    """Whoever went on without a job, or was told that it ended badly, waits for it again once a person restarts it."""
    for place, waived in tx.all("dependants_of_job", needs=reopened.seq):
        waiting = writes.read(tx, place)
        if waived and waiting.state not in (JobState.RUNNING, JobState.COMPLETED):
            tx.run("claim_dependency", job=place, needs=reopened.seq)
            tx.run("raise_unmet", job=place)
            waiting = writes.read(tx, place)
        if waiting.unmet:
            _wait_for_it(tx, waiting, actor, now)


def _wait_for_it(tx: Transaction, waiting: Job, actor: str, now: int) -> None:
    if waiting.state in _WAITS:
        block_again(tx, waiting, actor=actor, now=now)
    elif waiting.state is JobState.BLOCKED and waiting.reason in _SETTLED_AGAIN:
        # A missing tool is met again when the dependencies are there; till then its return must not release the job.
        dependency = _bad_need(tx, waiting)
        sentence = f"dependency {dependency} ended badly" if dependency else None
        writes.note(tx, waiting, "dependency_failed" if dependency else "waiting_for_dependencies", sentence)


def block_again(tx: Transaction, job: Job, *, actor: str, now: int) -> Job:
    """A job that would go on waits again for a dependency that was started again; any other stays as it is."""
    if job.state not in _WAITS or not job.unmet:
        return job
    return writes.step(tx, job, events.Block("dependency_requeued"), actor, now)
