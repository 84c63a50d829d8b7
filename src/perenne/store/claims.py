"""How due jobs are found and given to new attempts.

What does not live here: the transaction around it (`ledger`), and who may run how much (`runtime`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from perenne.core import events
from perenne.core.decide import Change, decide
from perenne.core.job import Job, Token
from perenne.core.states import JobState
from perenne.store import rows, writes
from perenne.store.driver import Transaction

RIPEN_AT_MOST = 256


class Lane(msgspec.Struct, frozen=True):
    """A kind that a worker serves."""

    kind: str
    version: int


class Claim(msgspec.Struct, frozen=True):
    """What a claim gives: the job as it runs now, and the right to write."""

    job: Job
    token: Token


def claim(
    tx: Transaction,
    lanes: Sequence[Lane],
    owner: str,
    attempts: Sequence[str],
    now: int,
    *,
    company: bool,
    ahead: int = 0,
) -> list[Claim]:
    """The best due jobs of these kinds in open queues, each RUNNING under one of the new attempt ids.

    Args: company: whether other attempts run in the owner's process. ahead: for how many of the ids there is no slot.
    """
    store = tx.one("read_store")
    assert store is not None
    _, epoch, paused, stopped = store
    due_at = next_due(tx)
    if due_at is not None:
        _ripen(tx, due_at, now)  # also under a pause: what is due is not waited for by the clock
    if paused or stopped:
        return []
    best = _who_may_run_together(_best(tx, lanes, len(attempts)), company)
    best = _who_may_wait_here(best, len(attempts) - ahead)
    return [_start(tx, job, owner, attempt, epoch, now) for job, attempt in zip(best, attempts, strict=False)]


def _ripen(tx: Transaction, due_at: int, now: int) -> None:
    """Mark what has become due, and what waits for another attempt since a time to come: the clock was set back."""
    if due_at <= now:
        tx.run("ripen", now=now, limit=RIPEN_AT_MOST)
    tx.run("ripen_after_step", now=now, limit=RIPEN_AT_MOST)


def next_due(tx: Transaction) -> int | None:
    """When the next job that waits for its time becomes due, or became so."""
    row = tx.one("next_due")
    return None if row is None else row[0]


def _best(tx: Transaction, lanes: Sequence[Lane], most: int) -> list[Job]:
    """The best due jobs: one seek a lane, so that no queue of jobs that cannot run is walked over."""
    open_queues = [name for name, _, _, paused, stopped in tx.all("list_queues") if not paused and not stopped]
    heads = [
        rows.job(row)
        for queue in open_queues
        for lane in dict.fromkeys(lanes)
        for row in tx.all("best_in_lane", queue=queue, kind=lane.kind, version=lane.version, limit=most)
    ]
    return sorted(heads, key=lambda job: (job.rank, job.seq))[:most]


def _who_may_run_together(best: list[Job], company: bool) -> list[Job]:
    """The best job if it runs alone and nobody is here; else all that come before one that does.

    Nobody overtakes it: the process empties, so that it has its turn.
    """
    if best and best[0].runs_alone:
        return [] if company else best[:1]
    return list(itertools.takewhile(lambda job: not job.runs_alone, best))


def _who_may_wait_here(best: list[Job], slots: int) -> list[Job]:
    """Without a slot, only whoever outlives a death: an attempt that never began may cost a job one, but not its last.

    The first that may not stays in the queue with all behind it, until there is a slot.
    """
    waiting = itertools.takewhile(lambda job: job.outlives_interruption, best[slots:])
    return [*best[:slots], *waiting]


def _start(tx: Transaction, job: Job, owner: str, attempt: str, epoch: int, now: int) -> Claim:
    change = decide(job, events.Claim(), now)
    assert isinstance(change, Change)
    held = {"seq": job.seq, "from_state": job.state, "revision": job.revision}
    touched = tx.run("start_attempt", **held, attempt=attempt, now=now)
    assert touched == 1, "the row changed inside our own transaction"
    # As the row stands now; to read it again would take three times as long, and a test compares the two.
    running = msgspec.structs.replace(
        job,
        state=JobState.RUNNING,
        reason=change.reason,
        due_at=0,
        attempt=attempt,
        number=job.number + 1,
        spent=job.spent + 1,
        progress_done=0,
        progress_total=None,
        progress_message=None,
        updated_at=now,
        revision=job.revision + 1,
    )
    tx.run("insert_attempt", id=attempt, job=job.seq, number=running.number, epoch=epoch, owner=owner, now=now)
    writes.log(tx, job, change.verb, change.to, change.reason, actor=f"worker:{owner}", now=now, number=running.number)
    return Claim(running, Token(job.id, attempt, running.number, epoch))
