"""What three workers may do with jobs that have an estimate, and what must hold after each of it.

The checks know the machine by hand: 6 GiB, 6 threads, 1 I/O slot. Nothing here asks the governor what is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from perenne.core import events
from perenne.core.estimate import Estimate
from perenne.core.job import Job, Token
from perenne.core.pressure import Pressure, Zone
from perenne.core.publication import Published
from perenne.core.resources import Machine, Policy, Reservation, capacity
from perenne.core.states import JobState
from perenne.core.verdicts import Situation
from perenne.errors import StaleToken
from perenne.store import reservations
from perenne.store.ledger import Ending, Lane
from perenne.store.owners import Owner

GIB = 1 << 30
MEMORY, THREADS, IO = 6 * GIB, 6, 1
WORKERS = tuple(f"82000000-0000-4000-8000-00000000000{number}" for number in range(1, 4))
LANES = [Lane("test.work", 1), Lane("test.other", 1)]
ABSENT = Published.absent()
AGEING_S = 30
ENDS = (events.Returned(), events.GaveUp("no"), events.Stopped("suspend"), events.Stopped("quota"))


class Disagreement(AssertionError):
    """The ledger and the model say different things."""


class Need(NamedTuple):
    """What the smallest and the largest batch take, in the model's own words."""

    fixed: int
    each: int
    least: int
    most: int
    threads: int
    io: int

    def estimate(self) -> str:
        return Estimate(
            memory_bytes=self.fixed * GIB,
            memory_per_item_bytes=self.each * GIB,
            min_batch=self.least,
            max_batch=self.most,
            threads=self.threads,
            io_slots=self.io,
        ).encode()

    @property
    def least_bytes(self) -> int:
        return (self.fixed + self.each * self.least) * GIB

    @property
    def possible(self) -> bool:
        return self.least_bytes <= MEMORY and self.io <= IO


needs = some.builds(
    lambda fixed, each, least, more, threads, io: Need(fixed, each, least, least + more, threads, io),
    some.sampled_from([0, 1, 1, 2, 2, 5, 7]),
    some.sampled_from([0, 0, 1]),
    some.sampled_from([1, 1, 2]),
    some.integers(0, 2),
    some.sampled_from([1, 1, 1, 1, 2, 6]),
    some.sampled_from([0, 0, 0, 1]),
)
workers = some.sampled_from(WORKERS)


def seen(zone: Zone) -> Situation:
    machine = Machine(at_s=1.0, cpus=8, total_bytes=8 * GIB, available_bytes=8 * GIB, own_bytes=8 * GIB)
    policy = Policy(ageing_s=AGEING_S)
    return Situation(machine=machine, policy=policy, capacity=capacity(machine, policy), pressure=Pressure(zone=zone))


class GovernedMachine(RuleBasedStateMachine):
    """The acts, and the checks after each."""

    open_room: ClassVar[Callable[[], Any]]

    @initialize()
    def begin(self) -> None:
        self.room = type(self).open_room()
        for number, worker in enumerate(WORKERS):
            self.room.owners.join(Owner(worker, number + 2, "boot", "start"), now=self.room.now)
        self.needs: dict[str, Need] = {}
        self.running: dict[str, dict[str, Token]] = {worker: {} for worker in WORKERS}
        self.resting: dict[str, dict[str, Token]] = {worker: {} for worker in WORKERS}
        self.refused: dict[tuple[str, str], tuple[str, int]] = {}  # class -> its head, since when it was refused

    @rule(wanted=some.lists(needs, min_size=1, max_size=4), kind=some.sampled_from(["test.work", "test.other"]))
    def submit(self, wanted: list[Need], kind: str) -> None:
        for need in wanted:
            self.room.later(0.001)
            self.needs[self.room.submit(kind=kind, estimate=need.estimate(), max_attempts=100).job_id] = need

    @rule(wanted=some.lists(needs, min_size=1, max_size=3), worker=workers, zone=some.sampled_from([*Zone]))
    def submit_and_claim(self, wanted: list[Need], worker: str, zone: Zone) -> None:
        self.submit(wanted, "test.work")
        self.turn(worker, [], 8, Zone.RED if zone is Zone.RED else Zone.GREEN)

    @rule(seconds=some.sampled_from([1, 31]))
    def later(self, seconds: int) -> None:
        self.room.later(seconds)

    @rule(
        worker=workers, slots=some.sampled_from([1, 8, 8]), zone=some.sampled_from([Zone.GREEN, Zone.GREEN, Zone.RED])
    )
    def claim(self, worker: str, slots: int, zone: Zone) -> None:
        self.turn(worker, [], slots, zone)

    @rule(worker=workers, which=some.integers(0, 9), how=some.sampled_from(ENDS), twice=some.booleans())
    def end(self, worker: str, which: int, how: events.Answer, twice: bool) -> None:
        token = self.pick(worker, which, self.running[worker] | self.resting[worker])
        if token is not None:
            ending = Ending(token, events.Ended(answer=how, published=ABSENT), 0.5)
            self.turn(worker, [ending] * (2 if twice else 1), 0, Zone.GREEN)

    @rule(worker=workers, which=some.integers(0, 9), slots=some.sampled_from([0, 1, 8]))
    def break_off(self, worker: str, which: int, slots: int) -> None:
        token = self.pick(worker, which, self.running[worker])
        if token is not None:
            self.resting[worker][token.attempt] = token
            broke = Ending(token, events.Ended(answer=events.Broke(), published=ABSENT), 0.5)
            self.turn(worker, [broke], slots, Zone.GREEN)

    @rule(worker=workers, twice=some.booleans())
    def die(self, worker: str, twice: bool) -> None:
        for token in list((self.running[worker] | self.resting[worker]).values()) * (2 if twice else 1):
            try:
                found = events.Interrupted(ABSENT)
                self.room.ledger.settle(token, found, now=self.room.now, actor="recovery")
            except StaleToken:
                continue
        self.running[worker], self.resting[worker] = {}, {}

    @rule(which=some.integers(0, 9), word=some.sampled_from([events.Cancel(), events.Pause(), events.Resume()]))
    def say(self, which: int, word: events.Event) -> None:
        jobs = [job for job in self.jobs() if job.state in (JobState.QUEUED, JobState.PAUSED)]
        if jobs:
            job = jobs[which % len(jobs)]
            if isinstance(word, events.Cancel) or isinstance(word, events.Pause) == (job.state is JobState.QUEUED):
                self.room.tell(job.id, word)
                self.refused = {name: one for name, one in self.refused.items() if one[0] != job.id}

    def pick(self, worker: str, which: int, known: dict[str, Token]) -> Token | None:
        if not known:
            return None
        attempt = sorted(known)[which % len(known)]
        token = known[attempt]
        self.running[worker].pop(attempt, None)
        self.resting[worker].pop(attempt, None)
        return token

    def turn(self, worker: str, endings: list[Ending], slots: int, zone: Zone) -> None:
        ended = {one.token.attempt for one in endings if not isinstance(one.ended.answer, events.Broke)}
        broke = {one.token.attempt for one in endings} - ended
        before = [one for one in self.held() if one.attempt not in ended | broke and one.waits_for is None]
        self.forget_changed_heads(worker)
        old = next((id for _, id, resting in self.waiting(worker) if not resting and self.has_aged(id)), None)
        turn = self.room.ledger.turn(
            endings,
            LANES,
            [self.room.id() for _ in range(slots)],
            owner=worker,
            now=self.room.now,
            actor=f"worker:{worker}",
            company=True,
            situation=seen(zone),
            waiting=list(self.resting[worker]),
        )
        for claim in turn.claims:
            self.running[worker][claim.token.attempt] = claim.token
            self.granted(self.needs[claim.job.id], claim.grant)
        for attempt, grant in turn.resumed.items():
            token = self.running[worker][attempt] = self.resting[worker].pop(attempt)
            self.granted(self.needs[token.job_id], grant)
        for job in turn.rejected:
            _agree(not self.needs[job.id].possible, "what this machine can run was rejected")
        begun = len(turn.claims) + len(turn.resumed)
        if not self.resting[worker]:
            self.kept_room(old, [claim.job for claim in turn.claims])
        if slots > 0 and begun < slots:
            self.asked(worker, turn.waits_for, begun, len(before), zone)

    def granted(self, need: Need, grant: Reservation | None) -> None:
        assert grant is not None
        _agree(need.least <= grant.batch <= need.most, "a batch outside its bounds")
        _agree(1 <= grant.threads <= need.threads, "threads outside their bounds")
        _agree(grant.memory_bytes == (need.fixed + need.each * grant.batch) * GIB, "memory that is not the batch's")
        _agree(grant.io_slots == need.io, "slots that were not asked for")

    def asked(self, worker: str, waits_for: str, begun: int, before: int, zone: Zone) -> None:
        """After a turn in which everybody was asked: who still waits waits with reason, and somebody is told."""
        waiting = self.waiting(worker)
        _agree(all(self.needs[id].possible for _, id, resting in waiting if not resting), "the impossible waits")
        _agree(bool(waiting) == bool(waits_for), "nobody would be told when the wait is over")
        if zone is Zone.RED:
            _agree(before == 0 or begun == 0, "something was added in the red zone")
            _agree(before > 0 or begun > 0 or not waiting, "the first of ours was kept out")
            return
        self.grow_old(waiting)
        memory, threads, io = self.left()
        for _, id, _ in waiting:
            need = self.needs[id]
            fits = need.least_bytes <= memory and threads >= 1 and need.io <= io
            _agree(not fits, "it waits although there is room")
            if self.has_aged(id):
                break  # room is kept for this one; those behind it may have to wait for that

    def grow_old(self, waiting: list[tuple[int, str, bool]]) -> None:
        heads: dict[tuple[str, str], str] = {}
        jobs = {job.id: job for job in self.jobs()}
        for _, id, resting in waiting:
            if not resting:
                heads.setdefault((jobs[id].kind, jobs[id].estimate or ""), id)
        known = self.refused
        self.refused = {
            name: known[name] if known.get(name, ("", 0))[0] == id else (id, self.room.now)
            for name, id in heads.items()
        }

    def forget_changed_heads(self, worker: str) -> None:
        """A class that another job leads now has not been refused with that one."""
        heads: dict[tuple[str, str], str] = {}
        jobs = {job.id: job for job in self.jobs()}
        for _, id, resting in self.waiting(worker):
            if not resting:
                heads.setdefault((jobs[id].kind, jobs[id].estimate or ""), id)
        self.refused = {name: one for name, one in self.refused.items() if heads.get(name) == one[0]}

    def has_aged(self, id: str) -> bool:
        since = [at for head, at in self.refused.values() if head == id]
        return bool(since) and self.room.now - since[0] >= AGEING_S * 1_000_000

    def kept_room(self, old: str | None, begun: list[Job]) -> None:
        """Whoever begins behind a job that has waited long, and takes memory, leaves as much as this one needs."""
        job = None if old is None else self.room.job(old)
        if job is None or job.state is not JobState.QUEUED:
            return
        if any(one.rank > job.rank and self.needs[one.id].least_bytes > 0 for one in begun):
            leaves = self.left()[0] >= self.needs[job.id].least_bytes
            _agree(leaves, "room was not kept for the one that has waited long")

    def waiting(self, worker: str) -> list[tuple[int, str, bool]]:
        due = [(job.rank, job.id, False) for job in self.jobs() if job.state is JobState.QUEUED]
        resting = {token.job_id for token in self.resting[worker].values()}
        return sorted(due + [(job.rank, job.id, True) for job in self.jobs() if job.id in resting])

    def jobs(self) -> list[Job]:
        return [self.room.job(id) for id in self.needs]

    def held(self) -> list[reservations.Held]:
        found: list[reservations.Held] = self.room.driver.read(reservations.all)
        return found

    def left(self) -> tuple[int, int, int]:
        live = [one.reservation for one in self.held()]
        memory, threads, io = (
            sum(getattr(one, name) for one in live) for name in ("memory_bytes", "threads", "io_slots")
        )
        return MEMORY - memory, THREADS - threads, IO - io

    @invariant()
    def nothing_is_given_twice(self) -> None:
        if not hasattr(self, "needs"):
            return
        _agree(min(self.left()) >= 0, f"more is held than there is: {self.left()}")
        held = self.held()
        running = {job.attempt for job in self.jobs() if job.state is JobState.RUNNING}
        _agree({one.attempt for one in held} == running, "a running job without its row, or a row without its job")
        resting = {attempt for mine in self.resting.values() for attempt in mine}
        _agree(
            {one.attempt for one in held if one.waits_for is not None} == resting,
            "who waits holds nothing, and no other",
        )

    def teardown(self) -> None:
        if hasattr(self, "room"):
            self.room.driver.close()


def over(make_room: Callable[[Path], Any], folder: Path) -> type[GovernedMachine]:
    """The machine, each example over a new ledger below the folder."""
    numbers = itertools.count()

    def open_room() -> Any:
        place = folder / str(next(numbers))
        place.mkdir()
        return make_room(place)

    return type("Machine", (GovernedMachine,), {"open_room": staticmethod(open_room)})


def _agree(holds: bool, words: str) -> None:
    if not holds:
        raise Disagreement(words)
