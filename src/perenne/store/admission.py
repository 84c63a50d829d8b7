"""Which of the jobs with an estimate may begin, asked inside the transaction that claims them.

One verdict a class: a class that is refused is parked with its sentence, and none of its jobs is looked at again in
this transaction. What does not live here: the verdict itself (`core.verdicts`), jobs without an estimate (`claims`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from perenne.core import estimate, events, verdicts
from perenne.core.estimate import Estimate
from perenne.core.job import Job
from perenne.core.resources import Capacity, Reservation
from perenne.core.verdicts import Situation, Verdict, WaitsFor
from perenne.store import moves, parking, reservations, rows, writes
from perenne.store.driver import Transaction
from perenne.store.reservations import Held

REJECTED_AT_MOST = 64  # in one transaction

Places = Mapping[tuple[str, int], str]  # kind, version -> name of the place where it runs


@dataclass(eq=False)
class Candidate:
    """Who asks for a reservation: the best job of a class, or a running job after a sequence break."""

    rank: int
    seq: int
    lane: tuple[str, int]
    needs: Estimate
    worst_item_bytes: int
    asks: Job | Held

    def __lt__(self, other: Candidate) -> bool:
        return (self.rank, self.seq) < (other.rank, other.seq)


@dataclass(eq=False)
class Admission:
    """What is asked in one transaction, and what came of it.

    Args: situation: of the machine, looked at before the transaction began. waiting: attempts of the asker whose frame
    was unwound at a sequence break.
    """

    situation: Situation | None
    owner: str
    actor: str
    waiting: Collection[str] = ()
    grants: dict[int, Reservation] = field(default_factory=dict)
    resumed: dict[str, Reservation] = field(default_factory=dict)
    rejected: list[Job] = field(default_factory=list)
    waits_for: WaitsFor = ""
    unasked: bool = False

    def choose(
        self, tx: Transaction, places: Places, room: Counter[str], queues: Collection[str], now: int
    ) -> list[Job]:
        """The jobs that are admitted, best first; those that no machine can ever run have ended, in `rejected`.

        Args: room: for how many attempts more each place has a slot; what is resumed is taken off.
        """
        if self.situation is None:
            self.unasked = True
            return []
        asking = Asking(tx, self.situation, self, now)
        return asking.walk(places, room, queues)

    def reserve(self, tx: Transaction, job: Job, attempt: str, now: int) -> Reservation | None:
        """Write what was granted to a job that begins now."""
        grant = self.grants.get(job.seq)
        if grant is not None:
            reservations.write(tx, job.seq, attempt, grant, now)
        return grant


class Asking:
    """One walk over all who ask, best first."""

    def __init__(self, tx: Transaction, situation: Situation, admission: Admission, now: int) -> None:
        self._tx, self._situation, self._admission, self._now = tx, situation, admission, now
        self._held = reservations.all(tx)
        self._live = [one.reservation for one in self._held if one.waits_for is None]
        self._parked = parking.Parked(tx, now)
        self._kept: Reservation | None = None
        self._first = True
        self._rejected = 0
        self._others: list[tuple[str, Capacity]] | None = None

    def walk(self, places: Places, room: Counter[str], queues: Collection[str]) -> list[Job]:
        """Ask for each while its place has room; the jobs that may begin."""
        chosen: list[Job] = []
        taken: Counter[str] = Counter()
        asking = self._candidates(places, queues)
        while asking:
            one = heapq.heappop(asking)
            place = places[one.lane]
            if taken[place] >= room[place]:
                continue
            verdict = self._ask(one)
            if verdict.grant is not None:
                taken[place] += 1
                self._admit(one, verdict.grant, chosen)
            elif verdict.answer == "reject" and isinstance(one.asks, Job):
                self._reject(one.asks, verdict)
            else:
                self._wait(one, verdict)
                continue
            self._push_next(one, asking)
        room.subtract(places[one.kind, one.version] for one in self._held if one.attempt in self._admission.resumed)
        return chosen

    def _candidates(self, places: Places, queues: Collection[str]) -> list[Candidate]:
        heads = [(rows.job(row[:-1]), row[-1] or 0) for row in self._tx.all("ripe_classes")]
        self._parked.keep_only([parking.class_of(job) for job, _ in heads])
        found = [
            _candidate(job, worst) for job, worst in heads if job.queue in queues and (job.kind, job.version) in places
        ]
        found += [
            Candidate(
                one.rank, one.job, (one.kind, one.version), estimate.read(one.estimate), one.worst_item_bytes, one
            )
            for one in self._held
            if one.waits_for is not None and one.attempt in self._admission.waiting
        ]
        heapq.heapify(found)
        return found

    def _ask(self, one: Candidate) -> Verdict:
        verdict = verdicts.judge(
            one.needs,
            self._situation,
            self._live,
            kept=self._kept,
            worst_item_bytes=one.worst_item_bytes,
            first=self._first,
        )
        if verdict.answer == "reject":
            return self._elsewhere(one, verdict)
        self._first = False
        return verdict

    def _elsewhere(self, one: Candidate, never: Verdict) -> Verdict:
        """A wait instead of a rejection, when another worker of the workspace could run it."""
        if self._others is None:
            self._others = reservations.capacities(self._tx)
        for owner, capacity in self._others:
            if owner != self._admission.owner and not verdicts.impossible(one.needs.bounded(), capacity):
                return Verdict("wait", f"{never.sentence}; worker {owner} could run it", None, "other")
        return never

    def _admit(self, one: Candidate, grant: Reservation, chosen: list[Job]) -> None:
        self._live.append(grant)
        if isinstance(one.asks, Job):
            self._admission.grants[one.asks.seq] = grant
            self._parked.forget(one.asks)
            chosen.append(one.asks)
        else:
            reservations.write(self._tx, one.asks.job, one.asks.attempt, grant, self._now)
            self._admission.resumed[one.asks.attempt] = grant

    def _wait(self, one: Candidate, verdict: Verdict) -> None:
        if self._admission.waits_for != "pressure":
            # Who ran here before does not fail when the machine becomes smaller: it waits.
            self._admission.waits_for = verdict.waits_for or "pressure"
        if isinstance(one.asks, Job):
            since = self._parked.note(one.asks, verdict)
        else:
            since = one.asks.at
            reservations.give_back(self._tx, one.asks.job, one.asks.attempt, verdict.sentence, self._now)
        aged = self._now - since >= self._situation.policy.ageing_s * 1e6
        if aged and verdict.waits_for == "room" and self._kept is None:
            self._kept = verdicts.least(one.needs)

    def _reject(self, job: Job, verdict: Verdict) -> None:
        self._rejected += 1
        change = writes.change_by(events.Reject(verdict.sentence), job, self._now)
        self._admission.rejected += moves.move(self._tx, job, change, actor=self._admission.actor, now=self._now)
        self._parked.forget(job)

    def _push_next(self, one: Candidate, asking: list[Candidate]) -> None:
        """The next job of the same class asks, too."""
        if not isinstance(one.asks, Job) or self._rejected >= REJECTED_AT_MOST:
            return
        values = {name: getattr(one.asks, name) for name in ("queue", "kind", "version", "estimate", "rank", "seq")}
        row = self._tx.one("next_in_class", **values)
        if row is not None:
            heapq.heappush(asking, _candidate(rows.job(row), one.worst_item_bytes))


def _candidate(job: Job, worst_item_bytes: int) -> Candidate:
    assert job.estimate is not None
    needs = estimate.read(job.estimate)
    return Candidate(job.rank, job.seq, (job.kind, job.version), needs, worst_item_bytes, job)
