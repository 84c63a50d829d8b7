"""Reservations as rows: what each running job holds, what it waits for, and what each class of jobs really took.

What does not live here: who is granted what (`core.verdicts`, `admission`).
"""

from __future__ import annotations

import msgspec

from perenne.core import estimate, events
from perenne.core.job import Job
from perenne.core.resources import Capacity, Reservation
from perenne.store.driver import Row, Transaction


class Held(msgspec.Struct, frozen=True):
    """What a running job holds; nothing while it waits, after a sequence break, for what `waits_for` says.

    Args: rank: of its job, less is better. sequence: how many reservations its attempt had. at: since when, UTC
    microseconds.
    """

    job: int
    job_id: str
    kind: str
    version: int
    queue: str
    rank: int
    estimate: str
    attempt: str
    reservation: Reservation
    sequence: int
    at: int
    waits_for: str | None
    worst_item_bytes: int


class Usage(msgspec.Struct, frozen=True):
    """What the sequences of one class took so far; a peak that nobody measured is None."""

    kind: str
    version: int
    estimate: str
    sequences: int
    items: int
    duration_ms: int
    peak_bytes: int | None
    worst_item_bytes: int | None


def all(tx: Transaction) -> list[Held]:
    """Those of every running job, oldest job first."""
    return [_held(row) for row in tx.all("reservations")]


def _held(row: Row) -> Held:
    reservation = Reservation(**dict(zip(Reservation.__struct_fields__, row[8:14], strict=True)))
    values = [*row[:8], reservation, *row[14:17], row[17] or 0]
    return Held(**dict(zip(Held.__struct_fields__, values, strict=True)))


def write(tx: Transaction, job: int, attempt: str, grant: Reservation, now: int) -> None:
    """A running job holds this from now on."""
    tx.run("reserve", job=job, attempt=attempt, now=now, **msgspec.structs.asdict(grant))


def give_back(tx: Transaction, job: int, attempt: str, waits_for: str, now: int) -> bool:
    """A running job holds nothing any more and waits; whether it is still this attempt's."""
    return bool(tx.run("give_back", job=job, attempt=attempt, waits_for=waits_for, now=now))


def capacities(tx: Transaction) -> list[tuple[str, Capacity]]:
    """What each worker that has not left could give away, by its id."""
    return [(owner, msgspec.json.decode(text, type=Capacity)) for owner, text in tx.all("capacities")]


def offer(tx: Transaction, owner: str, capacity: Capacity) -> None:
    """Say what a worker can give away on its machine."""
    tx.run("offer_capacity", owner=owner, offered=msgspec.json.encode(capacity).decode())


def note(tx: Transaction, job: Job, used: events.Used) -> None:
    """Keep what a sequence of this job took, for the next grants of its class."""
    if job.estimate is None:
        return
    item_bytes = used.item_bytes(estimate.read(job.estimate).memory_bytes)
    named = {"kind": job.kind, "version": job.version, "estimate": job.estimate}
    tx.run("add_usage", **named, item_bytes=item_bytes, **msgspec.structs.asdict(used))


def usages(tx: Transaction) -> list[Usage]:
    """What each class took."""
    return [Usage(*row) for row in tx.all("usages")]
