"""The whole of a workspace on one page: counts, controls, workers, every unfinished job, the newest finished ones.

The same values stand in `perenne-snapshot.json` and on every surface. What does not live here: files, words for people.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perenne.core import limits
from perenne.core.job import Queue
from perenne.core.states import FINAL, JobState
from perenne.errors import InvalidInput
from perenne.store import rows
from perenne.store.driver import Driver, Row, Transaction
from perenne.store.intake import not_found

UNFINISHED = 2_000
FINISHED = 1_000
MESSAGE_LETTERS = 120
DIAGNOSTIC_LETTERS = 240
_MOST = (1 << 63) - 1
_NAMED = 5

Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_BYTES)]
Number = Annotated[int, Meta(ge=0, le=_MOST)]


class JobLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One job in short, without input and result; the order of fields is the order of the query's columns.

    number: attempts begun. spent: those that count against `max_attempts`. due_at: 0, or when it may begin. parent: the
    job whose attempt submitted it. Instants are UTC microseconds since 1970.
    """

    id: Uuid
    kind: Name
    version: Annotated[int, Meta(ge=1, le=_MOST)]
    queue: Name
    state: JobState
    reason: Annotated[str, Meta(max_length=limits.DIAGNOSTIC_BYTES)]
    priority: Annotated[int, Meta(ge=limits.PRIORITY[0], le=limits.PRIORITY[-1])]
    number: Number
    spent: Annotated[int, Meta(ge=0, le=limits.ATTEMPTS[-1])]
    max_attempts: Annotated[int, Meta(ge=1, le=limits.ATTEMPTS[-1])]
    failures: Number
    interruptions: Number
    cancel_asked: bool
    pause_asked: bool
    progress_done: Annotated[int, Meta(ge=-_MOST, le=_MOST)]
    progress_total: Annotated[int, Meta(ge=-_MOST, le=_MOST)] | None
    progress_message: Annotated[str, Meta(max_length=MESSAGE_LETTERS)] | None
    diagnostic: Annotated[str, Meta(max_length=DIAGNOSTIC_LETTERS)] | None
    submitted_at: Number
    due_at: Number
    updated_at: Number
    finished_at: Number | None
    revision: Annotated[int, Meta(ge=1, le=_MOST)]
    parent: Uuid | None


class WorkerLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker that has not left, and how many attempts it runs; only its kernel lock proves that it lives."""

    id: Uuid
    pid: Number
    joined_at: Number
    running: Number


class Truncated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many jobs were left out."""

    unfinished: Number = 0
    finished: Number = 0


class Overview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One consistent view of a whole workspace; changed_at: when the newest line of its history was written."""

    epoch: Annotated[int, Meta(ge=1, le=_MOST)]
    revision: Number
    changed_at: Number
    paused: bool
    stopped: bool
    counts: dict[JobState, Number]
    queues: list[Queue]
    workers: list[WorkerLine]
    jobs: list[JobLine]
    truncated: Truncated


class Seen(msgspec.Struct, frozen=True):
    """What a look may reuse of the last one: the counts, at which epoch and revision, and each line by its place, with
    the revision and the due time that it tells of."""

    epoch: int
    revision: int
    counts: dict[str, int]
    lines: dict[int, tuple[int, int, JobLine]]


class Wanted(msgspec.Struct, frozen=True):
    """Which jobs: so many that are unfinished, then so many that ended last; or the newest of some states instead."""

    unfinished: int = UNFINISHED
    finished: int = FINISHED
    states: frozenset[str] = frozenset()


def look(driver: Driver, wanted: Wanted | None = None) -> Overview:
    """The workspace as it stands."""
    return driver.read(lambda tx: _look(tx, wanted or Wanted(), None))[0]


def look_again(driver: Driver, before: Seen | None) -> tuple[Overview, Seen]:
    """The same for whoever looks often: only what moved since `before` is counted and read anew."""
    return driver.read(lambda tx: _look(tx, Wanted(), before))


def find(driver: Driver, prefix: str) -> str:
    """The id of the one job whose id begins so.

    Raises: JobNotFound: none does. InvalidInput: several do, and some are named.
    """
    wanted = prefix.lower()
    if not wanted or wanted.strip("0123456789abcdef-"):
        raise not_found(prefix)
    found = [row[0] for row in driver.read(lambda tx: _between(tx, wanted))]
    if not found:
        raise not_found(prefix)
    if len(found) > 1:
        named = ", ".join(found[:_NAMED]) + (" and more" if len(found) > _NAMED else "")
        raise InvalidInput(
            f"job: {prefix!r} is the beginning of more than one id: {named}; give more of it",
            field="job",
            value=prefix,
        )
    return str(found[0])


def _between(tx: Transaction, prefix: str) -> list[Row]:
    return tx.all("ids_between", low=prefix, high=f"{prefix}g", limit=_NAMED + 1)


def _look(tx: Transaction, wanted: Wanted, before: Seen | None) -> tuple[Overview, Seen]:
    row = tx.one("overview_store")
    assert row is not None
    epoch, paused, stopped, revision, changed_at = row
    counts = _counts(tx, epoch, before)
    lines = _lines(tx, _places(tx, wanted), {} if before is None or before.epoch != epoch else before.lines)
    jobs = [line for _, _, line in lines.values()]
    view = Overview(
        epoch=epoch,
        revision=revision,
        changed_at=changed_at,
        paused=bool(paused),
        stopped=bool(stopped),
        counts=counts,
        queues=[rows.queue(row) for row in tx.all("list_queues")],
        workers=[WorkerLine(*row) for row in tx.all("overview_workers")],
        jobs=jobs,
        truncated=_left_out(counts, jobs),
    )
    return view, Seen(epoch, revision, {str(state): number for state, number in counts.items()}, lines)


def _places(tx: Transaction, wanted: Wanted) -> list[Row]:
    if wanted.states:
        states = rows.listed(sorted(wanted.states))
        return tx.all("places_in_states", states=states, limit=wanted.unfinished)
    return tx.all("unfinished_places", limit=wanted.unfinished) + tx.all("finished_places", limit=wanted.finished)


def _lines(
    tx: Transaction, places: list[Row], known: dict[int, tuple[int, int, JobLine]]
) -> dict[int, tuple[int, int, JobLine]]:
    """The line of each place, in the order of the places; read are those that are not known as they stand."""
    found, fresh = {}, {}
    for seq, revision, due_at in places:
        told = known.get(seq)
        if told is None or told[0] != revision or told[1] != due_at:
            fresh[seq] = (revision, due_at)
            continue
        found[seq] = told
    if fresh:
        for seq, *row in tx.all("lines_at", places=rows.listed(fresh)):
            found[seq] = (*fresh[seq], _line(row))
        found = {seq: found[seq] for seq, _, _ in places}
    return found


def _left_out(counts: dict[JobState, int], jobs: list[JobLine]) -> Truncated:
    final = sum(number for state, number in counts.items() if state in FINAL)
    ended = sum(job.state in FINAL for job in jobs)
    return Truncated(sum(counts.values()) - final - (len(jobs) - ended), final - ended)


def _counts(tx: Transaction, epoch: int, before: Seen | None) -> dict[JobState, int]:
    if before is None or before.epoch != epoch or _was_emptied(tx, before.revision):
        return {JobState(state): number for state, number in tx.all("count_states")}
    counts = dict(before.counts)
    for left, reached, number in tx.all("moves_since", after=before.revision):
        counts[reached] = counts.get(reached, 0) + number
        if left is not None:
            counts[left] = counts.get(left, 0) - number
    return {JobState(state): number for state, number in sorted(counts.items()) if number}


def _was_emptied(tx: Transaction, revision: int) -> bool:
    row = tx.one("removals_since", after=revision)
    return row is None or bool(row[0])


def _line(values: list[Any]) -> JobLine:
    values[4], values[12], values[13] = _STATES[values[4]], bool(values[12]), bool(values[13])
    return JobLine(*values)


_STATES = {str(state): state for state in JobState}
