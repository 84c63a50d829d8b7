"""E-G2 under several workers: whatever they do in whatever order, what is held never exceeds what there is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from perenne.core import events
from perenne.core.estimate import Estimate
from perenne.core.job import Job, Token
from perenne.core.pressure import Pressure, Zone
from perenne.core.publication import Published
from perenne.core.resources import Machine, Policy, capacity, holds, total
from perenne.core.retry import Backoff
from perenne.core.states import JobState
from perenne.core.verdicts import Situation
from perenne.store import reservations
from perenne.store.ledger import Claim, Ending, Lane
from perenne.store.owners import Owner

SCHEDULES = 1_000
GIB = 1 << 30
LANES = [Lane("test.work", 1), Lane("test.other", 1)]
WORKERS = [f"82000000-0000-4000-8000-0000000000{number}0" for number in range(1, 4)]
ABSENT = Published.absent()
ENDS: tuple[events.Answer, ...] = (
    events.Returned(),
    events.Raised("boom", True, Backoff(base_s=1.0, cap_s=1.0)),
    events.GaveUp("it cannot work"),
    events.Snoozed(1.0),
    events.Doubted("two results"),
    events.Stopped("suspend"),
    events.Stopped("quota"),
    events.Missing("no tool"),
)
POLICY = Policy(io_slots=1, gpu_slots=1, gpu_memory_bytes=4 * GIB)


def seen(luck: random.Random) -> Situation:
    """The same machine for all, under whatever pressure each of them sees."""
    machine = Machine(
        at_s=1.0,
        cpus=8,
        total_bytes=8 * GIB,
        available_bytes=luck.choice([8, 8, 4, 1]) * GIB,
        load=luck.choice([None, 0.0, 20.0]),
        own_share=luck.choice([None, 0.0, 1.0]),
        own_bytes=luck.choice([None, 0, 8 * GIB]),
    )
    pressure = Pressure(zone=luck.choice(list(Zone)), most=luck.choice([None, None, 1, 4]))
    return Situation(machine=machine, policy=POLICY, capacity=capacity(machine, POLICY), pressure=pressure)


def estimate(luck: random.Random) -> str | None:
    if luck.random() < 0.1:
        return None
    gpu = luck.random() < 0.2
    least = luck.choice([1, 1, 2])
    return (
        Estimate(
            memory_bytes=luck.choice([0, 1, 3]) * GIB,
            memory_per_item_bytes=luck.choice([0, GIB // 2]),
            gpu_memory_bytes=GIB if gpu else 0,
            gpu_slots=int(gpu),
            io_slots=int(luck.random() < 0.2),
            min_batch=least,
            max_batch=least + luck.choice([0, 2]),
            threads=luck.choice([1, 2, 7]),
            items=luck.choice([None, 3]),
        )
        .bounded()
        .encode()
    )


class Schedule:
    """A few workers over one ledger, and a random order of what they do."""

    def __init__(self, room: Any, luck: random.Random) -> None:
        self.room, self.luck = room, luck
        self.running: dict[str, dict[str, Token]] = {worker: {} for worker in WORKERS}
        self.resting: dict[str, dict[str, Token]] = {worker: {} for worker in WORKERS}
        self.admitted: set[str] = set()
        kinds = ["test.work", "test.other"]
        wanted = [
            room.wanted(kind=luck.choice(kinds), queue="wide", estimate=estimate(luck))
            for _ in range(luck.randrange(2, 7))
        ]
        self.ids = room.submit_many(wanted)

    def step(self) -> None:
        worker = self.luck.choice(WORKERS)
        acts: list[Callable[[str], None]] = [self.claim, self.claim, self.claim, self.end, self.break_off, self.die]
        self.luck.choice(acts)(worker)
        self.check()

    def claim(self, worker: str) -> None:
        self.turn(worker, [], self.luck.choice([1, 3]))

    def turn(self, worker: str, endings: list[Ending], room: int) -> None:
        attempts = [self.room.id() for _ in range(room)]
        turn = self.room.ledger.turn(
            endings,
            LANES,
            attempts,
            owner=worker,
            now=self.room.now,
            actor=f"worker:{worker}",
            company=True,
            situation=seen(self.luck),
            waiting=list(self.resting[worker]),
        )
        for claim in turn.claims:
            self.running[worker][claim.token.attempt] = claim.token
            self.admitted |= {claim.token.attempt} if claim.grant is not None else set()
            assert (claim.grant is None) == (claim.job.estimate is None)
        for attempt in turn.resumed:
            self.running[worker][attempt] = self.resting[worker].pop(attempt)

    def end(self, worker: str) -> None:
        """One attempt ends in some way, and perhaps it is said twice."""
        known = self.running[worker] | self.resting[worker]
        if known:
            token = self.luck.choice(list(known.values()))
            ending = Ending(token, events.Ended(answer=self.luck.choice(ENDS), published=ABSENT), 0.5)
            for where in (self.running, self.resting):
                where[worker].pop(token.attempt, None)
            self.turn(worker, [ending] * self.luck.choice([1, 1, 2]), self.luck.choice([0, 1]))

    def break_off(self, worker: str) -> None:
        may = sorted(self.admitted & set(self.running[worker]))  # whoever asked for nothing breaks nothing
        if may:
            attempt = self.luck.choice(may)
            self.resting[worker][attempt] = token = self.running[worker].pop(attempt)
            ending = Ending(token, events.Ended(answer=events.Broke(), published=ABSENT), 0.5)
            self.turn(worker, [ending], self.luck.choice([0, 1]))

    def die(self, worker: str) -> None:
        """A worker is gone; another settles what it left, perhaps twice."""
        if self.luck.random() < 0.7:
            return
        for token in (self.running[worker] | self.resting[worker]).values():
            self.room.ledger.settle(token, events.Interrupted(ABSENT), now=self.room.now, actor="recovery")
        self.running[worker].clear()
        self.resting[worker].clear()

    def check(self) -> None:
        held = self.room.driver.read(reservations.all)
        there = capacity(Machine(at_s=1.0, cpus=8, total_bytes=8 * GIB), POLICY)
        assert holds(there, total(one.reservation for one in held))
        jobs: list[Job] = self.room.reader.jobs(state=JobState.RUNNING)
        assert {one.job_id for one in held} == {job.id for job in jobs if job.estimate is not None}
        resting = {attempt for mine in self.resting.values() for attempt in mine}
        assert {one.attempt for one in held if one.waits_for is not None} == resting

    def finish(self) -> None:
        """Everything that runs ends, and every job that waits is cancelled."""
        for worker in WORKERS:
            known = self.running[worker] | self.resting[worker]
            endings = [
                Ending(token, events.Ended(answer=self.luck.choice(ENDS), published=ABSENT), 0.5)
                for token in known.values()
            ]
            self.running[worker].clear()
            self.resting[worker].clear()
            self.turn(worker, endings, 0)
        assert self.room.driver.read(reservations.all) == []
        for job in map(self.room.job, self.ids):
            if not job.is_final and job.state is not JobState.RECOVERY_REQUIRED:
                self.room.tell(job.id, events.Cancel())


@pytest.mark.timeout(600)
def test_a_thousand_schedules_never_give_more_than_there_is(room: Any) -> None:
    """After each act of any of three workers the sum of what is held fits the machine; at the end nothing is held."""
    for number, worker in enumerate(WORKERS):
        room.owners.join(Owner(worker, number + 2, "boot", "start"), now=room.now)
    room.ledger.add_queue("wide", 1_000_000)
    admitted = 0
    for seed in range(SCHEDULES):
        luck = random.Random(seed)
        schedule = Schedule(room, luck)
        for _ in range(luck.randrange(4, 12)):
            schedule.step()
            room.later(0.5)
        schedule.finish()
        admitted += len(schedule.admitted)
    assert admitted > SCHEDULES


def test_a_claim_is_worth_nothing_without_its_reservation(room: Any) -> None:
    """A job with an estimate that is claimed by who did not ask is not there to be claimed at all."""
    room.submit(estimate=Estimate(memory_bytes=1).encode())
    found: Claim | None = room.claim()
    assert found is None
