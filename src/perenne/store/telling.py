"""Carries out what a person or the engine says about one job, and what follows from it, inside one transaction.

What does not live here: the transaction around it (`ledger`), and what a word means (`core.decide`).
"""

from __future__ import annotations

import msgspec

from perenne.core import events
from perenne.core.decide import Ask, decide
from perenne.core.job import Job
from perenne.store import dependants, intake, moves, turns, writes
from perenne.store.driver import Transaction


def tell(tx: Transaction, job_id: str, event: events.Event, now: int, actor: str) -> list[Job]:
    """The job as it stands afterwards, then whoever ended with it.

    Raises: as `Ledger.tell`.
    """
    job = turns.find(tx, job_id)
    if job is None:
        raise intake.not_found(job_id)
    if isinstance(event, events.Requeue):
        event = msgspec.structs.replace(event, unmet=job.unmet)
    decided = decide(job, event, now)
    if isinstance(decided, Ask):
        return [writes.ask(tx, job, type(event).__name__.lower(), decided, actor=actor, now=now)]
    if isinstance(event, events.Resolve | events.Requeue) and event.from_start:
        tx.run("drop_checkpoint", job=job.seq)
    moved, *freed = moves.move(tx, job, decided, actor=actor, now=now)
    if decided.verb == "requeue":
        dependants.wait_again(tx, moved, actor=actor, now=now)
    moved = dependants.block_again(tx, moved, actor=actor, now=now)
    return dependants.settle_blocked(tx, moved, actor=actor, now=now) + freed
