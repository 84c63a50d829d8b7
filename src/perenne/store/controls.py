"""The controls of a queue and of the whole workspace, as rows: written here, read in each claim.

What does not live here: the transaction around it (`ledger`), and what workers do then (`runtime`).
"""

from __future__ import annotations

from typing import Literal

from perenne.errors import InvalidInput
from perenne.store import writes
from perenne.store.driver import Transaction

Verb = Literal["pause", "resume", "stop"]


def subject_of(queue: str | None) -> str:
    """How a line of history names what is steered."""
    return "workspace" if queue is None else f"queue:{queue}"


def steer(tx: Transaction, verb: Verb, queue: str | None, now: int, actor: str) -> None:
    """Pause, resume or stop one queue, or the workspace (None); `resume` clears both pause and stop.

    Raises: InvalidInput: no such queue.
    """
    row = tx.one("read_store") if queue is None else tx.one("read_queue", name=queue)
    if row is None:
        known = ", ".join(line[0] for line in tx.all("list_queues")) or "none"
        raise InvalidInput(f"queue: {queue!r} does not exist here; known: {known}", field="queue", value=queue)
    *_, was_paused, was_stopped = row
    paused = verb == "pause" or (verb == "stop" and bool(was_paused))
    stopped = verb == "stop" or (verb == "pause" and bool(was_stopped))
    if queue is None:
        tx.run("set_store_controls", paused=paused, stopped=stopped)
    else:
        tx.run("set_queue_controls", name=queue, paused=paused, stopped=stopped)
    writes.write_line(tx, None, subject_of(queue), verb, None, None, f"{verb}_requested", actor, now, None)
