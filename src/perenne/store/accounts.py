"""The governor's own questions to the ledger: what is held and parked, and whether a running job may simply go on.

What does not live here: the claim that writes reservations (`claims`, `admission`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from perenne.core import estimate, verdicts
from perenne.core.job import Token
from perenne.core.resources import Capacity, Policy, Reservation
from perenne.core.verdicts import Situation, Verdict
from perenne.store import parking, reservations, rows
from perenne.store.driver import Driver, Transaction
from perenne.store.parking import Refused
from perenne.store.reservations import Held, Usage


class Account(msgspec.Struct, frozen=True):
    """All that the governor keeps in the ledger, on one consistent view."""

    held: list[Held]
    parked: list[Refused]
    offers: list[tuple[str, Capacity]]
    usages: list[Usage]


class Accounts:
    """The reservations of one workspace."""

    def __init__(self, driver: Driver, wake: Callable[[], None] | None = None) -> None:
        """Args: wake: tells who sleeps to look again; called when there is room that nobody has."""
        self._driver, self._wake = driver, wake

    def offer(self, owner: str, capacity: Capacity) -> None:
        """Say what a worker could give away, before it rejects or is named as who could run a job."""
        self._driver.write(
            lambda tx: reservations.offer(tx, owner, capacity),
            recheck=lambda tx, _: (owner, capacity) in reservations.capacities(tx),
        )

    def look(self) -> Account:
        """What stands there now."""
        return self._driver.read(
            lambda tx: Account(
                reservations.all(tx), parking.all(tx), reservations.capacities(tx), reservations.usages(tx)
            )
        )

    def may_go_on(self, asks: Next) -> bool:
        """Whether this running attempt, asking anew, would be granted exactly what it holds.

        Whoever waits with a better place is asked first; nothing is written.
        """

        def work(tx: Transaction) -> bool:
            held = reservations.all(tx)
            mine = _of(held, asks)
            return mine is not None and _verdict(tx, mine, held, asks).grant == mine.reservation

        return self._driver.read(work)

    def give_back(self, asks: Next) -> bool:
        """The running attempt holds nothing any more, and waits; false when it is no longer this attempt's."""

        def work(tx: Transaction) -> bool:
            mine = _of(reservations.all(tx), asks)
            sentence = "it asks for its next sequence"
            return mine is not None and reservations.give_back(tx, mine.job, mine.attempt, sentence, asks.now)

        return self._driver.write(work, recheck=lambda tx, given: not given or _waits(tx, asks), then=self._wake)

    def take_up(self, asks: Next) -> Reservation | None:
        """What the waiting attempt is granted, written in the same transaction; None while it must wait."""

        def work(tx: Transaction) -> Reservation | None:
            held = reservations.all(tx)
            mine = _of(held, asks)
            if mine is None:
                return None
            verdict = _verdict(tx, mine, held, asks)
            if verdict.grant is None:
                reservations.give_back(tx, mine.job, mine.attempt, verdict.sentence, asks.now)
            else:
                reservations.write(tx, mine.job, mine.attempt, verdict.grant, asks.now)
            return verdict.grant

        return self._driver.write(work, recheck=lambda tx, grant: (grant is None) == _waits(tx, asks))


class Next(NamedTuple):
    """Who asks for its next sequence, and what is known then. lanes: the kinds that the asker's worker serves."""

    token: Token
    situation: Situation
    lanes: Collection[tuple[str, int]]
    now: int


def _of(held: list[Held], asks: Next) -> Held | None:
    return next((one for one in held if one.attempt == asks.token.attempt), None)


def _waits(tx: Transaction, asks: Next) -> bool:
    mine = _of(reservations.all(tx), asks)
    return mine is not None and mine.waits_for is not None


class _Waiting(NamedTuple):
    """Who asks for a reservation, how good its place is, and since when it was refused, if it was."""

    rank: int
    job: int
    estimate: str
    worst_item_bytes: int
    since: int | None

    def has_aged(self, now: int, policy: Policy) -> bool:
        return self.since is not None and now - self.since >= policy.ageing_s * 1e6


def _verdict(tx: Transaction, mine: Held, held: list[Held], asks: Next) -> Verdict:
    """What one attempt gets if it asks anew, and those that wait with a better place are asked before it."""
    live = [one.reservation for one in held if one.attempt != mine.attempt and one.waits_for is None]
    kept: Reservation | None = None
    first = True
    for one in _better(tx, mine, held, asks.lanes):
        needs, worst = estimate.read(one.estimate), one.worst_item_bytes
        verdict = verdicts.judge(needs, asks.situation, live, kept=kept, worst_item_bytes=worst, first=first)
        first = False
        if verdict.grant is not None:
            live.append(verdict.grant)
        elif kept is None and verdict.waits_for == "room" and one.has_aged(asks.now, asks.situation.policy):
            kept = verdicts.least(needs)
    needs, worst = estimate.read(mine.estimate), mine.worst_item_bytes
    return verdicts.judge(needs, asks.situation, live, kept=kept, worst_item_bytes=worst, first=first)


def _better(tx: Transaction, mine: Held, held: list[Held], lanes: Collection[tuple[str, int]]) -> list[_Waiting]:
    """Those that wait with a better place than this one, best first."""
    store = tx.one("read_store_for_claim")
    assert store is not None
    *_, paused, stopped, asked = store
    found = [
        _Waiting(one.rank, one.job, one.estimate, one.worst_item_bytes, one.at)
        for one in held
        if one.waits_for is not None and one.attempt != mine.attempt
    ]
    if asked and not paused and not stopped:
        found += _heads(tx, lanes)
    return sorted((one for one in found if one[:2] < (mine.rank, mine.job)), key=lambda one: one[:2])


def _heads(tx: Transaction, lanes: Collection[tuple[str, int]]) -> list[_Waiting]:
    """The best job of each class that a worker of these kinds could begin."""
    closed = {name for name, _, _, paused, stopped in tx.all("list_queues") if paused or stopped}
    since = {one.job: one.since for one in parking.all(tx)}
    found = []
    for row in tx.all("ripe_classes"):
        job = rows.job(row[:-1])
        if (job.kind, job.version) in lanes and job.queue not in closed and job.estimate is not None:
            found.append(_Waiting(job.rank, job.seq, job.estimate, row[-1] or 0, since.get(job.seq)))
    return found
