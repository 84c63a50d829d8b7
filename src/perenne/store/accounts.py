"""The governor's own questions to the ledger: what is held and parked, and whether a running job may simply go on.

What does not live here: the claim that writes reservations (`claims`, `admission`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from perenne.core import estimate, verdicts
from perenne.core.resources import Capacity, Policy, Reservation
from perenne.core.verdicts import Situation
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

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

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

    def may_go_on(self, attempt: str, situation: Situation, lanes: Collection[tuple[str, int]], now: int) -> bool:
        """Whether this running attempt, asking anew, would be granted exactly what it holds.

        Whoever waits with a better place is asked first; nothing is written.
        """
        return self._driver.read(lambda tx: _same_again(tx, attempt, situation, lanes, now))


class _Waiting(NamedTuple):
    """Who asks for a reservation, how good its place is, and since when it was refused, if it was."""

    rank: int
    job: int
    estimate: str
    worst_item_bytes: int
    since: int | None

    def has_aged(self, now: int, policy: Policy) -> bool:
        return self.since is not None and now - self.since >= policy.ageing_s * 1e6


def _same_again(
    tx: Transaction, attempt: str, situation: Situation, lanes: Collection[tuple[str, int]], now: int
) -> bool:
    held = reservations.all(tx)
    mine = next((one for one in held if one.attempt == attempt and one.waits_for is None), None)
    if mine is None:
        return False
    live = [one.reservation for one in held if one is not mine and one.waits_for is None]
    kept: Reservation | None = None
    first = True
    for one in _better(tx, mine, held, lanes):
        needs = estimate.read(one.estimate)
        verdict = verdicts.judge(needs, situation, live, kept=kept, worst_item_bytes=one.worst_item_bytes, first=first)
        first = False
        if verdict.grant is not None:
            live.append(verdict.grant)
        elif kept is None and verdict.waits_for == "room" and one.has_aged(now, situation.policy):
            kept = verdicts.least(needs)
    needs = estimate.read(mine.estimate)
    verdict = verdicts.judge(needs, situation, live, kept=kept, worst_item_bytes=mine.worst_item_bytes, first=first)
    return verdict.grant == mine.reservation


def _better(tx: Transaction, mine: Held, held: list[Held], lanes: Collection[tuple[str, int]]) -> list[_Waiting]:
    """Those that wait with a better place than this one, best first."""
    store = tx.one("read_store_for_claim")
    assert store is not None
    *_, paused, stopped, asked = store
    found = [
        _Waiting(one.rank, one.job, one.estimate, one.worst_item_bytes, one.at)
        for one in held
        if one.waits_for is not None
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
