"""Carries one change out: the guarded write of the row, then all that follows from it in the same transaction.

What does not live here: which change it is (`core.decide`), how a row is written (`writes`), what it means for the
jobs that wait for this one (`dependants`), and transactions (`ledger`).
"""

from __future__ import annotations

from perenne.core import events
from perenne.core.decide import Change
from perenne.core.job import Job, Token
from perenne.core.states import JobState
from perenne.errors import DuplicateJob, QueueFull
from perenne.store import dependants, writes
from perenne.store.driver import Transaction

_GOES_ON = frozenset({JobState.QUEUED, JobState.RETRY_WAIT, JobState.BLOCKED})


def move(tx: Transaction, job: Job, change: Change, *, actor: str, now: int) -> list[Job]:
    """Carry out a change of a job that is not running; the job as it stands afterwards, then whoever ended with it.

    Raises: QueueFull, DuplicateJob: a person starts a finished job again, but its queue is full, or another job holds
    its active key; nothing is written.
    """
    if change.verb == "requeue":
        _enter_again(tx, job)
    moved = writes.write_waiting(tx, job, change, now)
    return _follow(tx, job, moved, change, actor, now)


def end(tx: Transaction, job: Job, change: Change, token: Token, *, active_ms: int, actor: str, now: int) -> list[Job]:
    """Carry out the change that ends the running attempt, under its token; answers as `move`.

    Raises: StaleToken: the row is no longer this attempt's; nothing is written.
    """
    moved = writes.write_ending(tx, job, change, token, active_ms, now)
    writes.close_attempt(tx, job, change, token, active_ms, now)
    if job.estimate is not None:
        tx.run("free_reservation", job=job.seq)
    ended = _follow(tx, job, moved, change, actor, now)
    if job.pause_asked and ended[0].state in _GOES_ON:
        # The attempt ended for another reason before it met the pause; the wish outlives it.
        return move(tx, ended[0], writes.change_by(events.Pause(), ended[0], now), actor=actor, now=now)
    return ended


def _enter_again(tx: Transaction, job: Job) -> None:
    if job.unique_key is not None:
        refuse_second(tx, job.unique_key)
    if not tx.run("take_place", name=job.queue):
        row = tx.one("read_queue", name=job.queue)
        raise queue_full(job.queue, row[1] if row else 0)


def refuse_second(tx: Transaction, unique_key: str) -> None:
    """Raises: DuplicateJob: an unfinished job holds this active key."""
    active = tx.one("active_job", unique_key=unique_key)
    if active is not None:
        raise DuplicateJob(
            f"unique_key {unique_key!r}: job {active[0]} is not finished yet; wait for it or cancel it",
            field="unique_key",
            job_id=active[0],
        )


def queue_full(queue: str, capacity: int) -> QueueFull:
    """The error that names the queue, its bound and what to do."""
    return QueueFull(
        f"queue {queue}: {capacity} unfinished jobs, the limit is {capacity}; "
        f"let some end, cancel some, or raise the limit",
        queue=queue,
        value=capacity,
        limit=capacity,
    )


def _follow(tx: Transaction, job: Job, moved: Job, change: Change, actor: str, now: int) -> list[Job]:
    writes.record(tx, job, change, actor, now)
    return [moved, *dependants.free(tx, moved, actor, now)]
