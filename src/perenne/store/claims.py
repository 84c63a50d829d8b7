"""How due jobs are found and given to new attempts.

What does not live here: the transaction around it (`ledger`), and who may run how much (`runtime`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from perenne.core import events
from perenne.core.decide import Change, decide
from perenne.core.job import Job, Token
from perenne.core.resources import Reservation
from perenne.core.states import JobState
from perenne.store import rows, writes
from perenne.store.admission import Admission
from perenne.store.driver import Transaction

RIPEN_AT_MOST = 256


class Place(msgspec.Struct, frozen=True):
    """Where a worker runs some kinds: how many jobs more it takes, and for how many of them there is no slot yet."""

    name: str
    room: int
    ahead: int = 0


class Lane(msgspec.Struct, frozen=True):
    """A kind that a worker serves, and where; without a place it shares the one of all such lanes."""

    kind: str
    version: int
    place: Place | None = None


class Claim(msgspec.Struct, frozen=True):
    """What a claim gives: the job as it runs now, the right to write, and what it may use."""

    job: Job
    token: Token
    grant: Reservation | None = None  # of a job with an estimate
    sequence: int = 1  # how many reservations the attempt had
    used_ms: int = 0  # of active time, in the sequences before this one


def claim(
    tx: Transaction,
    lanes: Sequence[Lane],
    owner: str,
    attempts: Sequence[str],
    now: int,
    *,
    company: bool,
    ahead: int = 0,
    admission: Admission | None = None,
) -> list[Claim]:
    """The best due jobs of these kinds in open queues, each RUNNING under one of the new attempt ids.

    Args: company: whether other attempts run in the owner's process. ahead: for how many of the ids there is no slot.
    admission: grants to jobs with an estimate what they need; without it, none of them begins.
    """
    store = tx.one("read_store_for_claim")
    assert store is not None
    _, epoch, paused, stopped, asked = store
    due_at = next_due(tx)
    if due_at is not None:
        _ripen(tx, due_at, now)  # also under a pause: what is due is not waited for by the clock
    if paused or stopped:
        return []
    anywhere = Place("", len(attempts), ahead)
    queues = open_queues(tx)
    best = _best(tx, lanes, queues, anywhere)
    if admission is not None and (asked or admission.waiting):
        best = _with_admitted(tx, best, lanes, queues, anywhere, admission, now)
    best = _who_may_wait_here(_who_may_run_together(best, company))
    return [
        _start(tx, job, owner, attempt, epoch, now, admission)
        for (job, _), attempt in zip(best, attempts, strict=False)
    ]


def _ripen(tx: Transaction, due_at: int, now: int) -> None:
    """Mark what has become due, and what waits for another attempt since a time to come: the clock was set back."""
    if due_at <= now:
        tx.run("ripen", now=now, limit=RIPEN_AT_MOST)
    tx.run("ripen_after_step", now=now, limit=RIPEN_AT_MOST)


def next_due(tx: Transaction) -> int | None:
    """When the next job that waits for its time becomes due, or became so."""
    row = tx.one("next_due")
    return None if row is None else row[0]


Placed = tuple[Job, Place]


def open_queues(tx: Transaction) -> list[str]:
    return [name for name, _, _, paused, stopped in tx.all("list_queues") if not paused and not stopped]


def _best(tx: Transaction, lanes: Sequence[Lane], queues: Sequence[str], anywhere: Place) -> list[Placed]:
    """The best due jobs that each place has room for: one seek a lane, so that no queue is walked over."""
    placed = [(lane, lane.place or anywhere) for lane in dict.fromkeys(lanes)]
    heads = [
        (rows.job(row), place)
        for queue in queues
        for lane, place in placed
        if place.room > 0
        for row in tx.all("best_in_lane", queue=queue, kind=lane.kind, version=lane.version, limit=place.room)
    ]
    return _that_fit(heads, {place.name: place.room for _, place in placed})


def _that_fit(heads: list[Placed], room: Mapping[str, int]) -> list[Placed]:
    """The best that each place has room for, in order. A place that is full keeps no other waiting."""
    taken: Counter[str] = Counter()
    best = []
    for job, place in sorted(heads, key=lambda head: (head[0].rank, head[0].seq)):
        taken[place.name] += 1
        if taken[place.name] <= room[place.name]:
            best.append((job, place))
    return best


def _with_admitted(
    tx: Transaction,
    plain: list[Placed],
    lanes: Sequence[Lane],
    queues: list[str],
    anywhere: Place,
    admission: Admission,
    now: int,
) -> list[Placed]:
    """Those, and the jobs with an estimate that are admitted; none of these waits for a slot, for it holds much."""
    places = {(lane.kind, lane.version): lane.place or anywhere for lane in lanes}
    room = Counter({place.name: max(place.room - place.ahead, 0) for place in places.values()})
    names = {lane: place.name for lane, place in places.items()}
    admitted = [(job, places[job.kind, job.version]) for job in admission.choose(tx, names, room, queues, now)]
    # What is resumed has been taken off by now.
    return _that_fit(plain + admitted, {place.name: room[place.name] + place.ahead for place in places.values()})


def _who_may_run_together(best: list[Placed], company: bool) -> list[Placed]:
    """The best job if it runs alone and nobody is here; else all that come before one that does.

    Nobody overtakes it: the process empties, so that it has its turn.
    """
    if best and best[0][0].runs_alone:
        return [] if company else best[:1]
    return list(itertools.takewhile(lambda head: not head[0].runs_alone, best))


def _who_may_wait_here(best: list[Placed]) -> list[Placed]:
    """Without a slot, only whoever outlives a death: an attempt that never began may cost a job one, but not its last.

    The first that may not stays in the queue with all behind it that go to the same place, until there is a slot.
    """
    taken: Counter[str] = Counter()
    full: set[str] = set()
    staying = []
    for job, place in best:
        if taken[place.name] >= place.room - place.ahead and not job.outlives_interruption:
            full.add(place.name)
        if place.name not in full:
            taken[place.name] += 1
            staying.append((job, place))
    return staying


def _start(
    tx: Transaction, job: Job, owner: str, attempt: str, epoch: int, now: int, admission: Admission | None = None
) -> Claim:
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
    token = Token(job.id, attempt, running.number, epoch)
    if job.estimate is None or admission is None:
        return Claim(running, token)
    return Claim(running, token, admission.reserve(tx, job, attempt, now))
