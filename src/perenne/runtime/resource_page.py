"""What people look at of the governor: the machine, who holds what, who waits for what, and what was really used.

Reads only, and only now: the zones of a worker are in its own process, and stand in the sentences of who waits.
"""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from perenne.core import estimate, pressure, resources
from perenne.core.pressure import Pressure
from perenne.core.resources import Capacity, Machine
from perenne.files.workspace import Workspace
from perenne.runtime import governor_rule
from perenne.runtime.machine import Sampler
from perenne.store.accounts import Account, Accounts
from perenne.store.driver import Driver

CONTRACT = "perenne.resources.v1"


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A running job with an estimate. waits_for: the sentence, while it holds nothing between two sequences."""

    job: str
    kind: str
    version: int
    batch: int
    memory_bytes: int
    threads: int
    gpu_slots: int
    io_slots: int
    sequence: int
    since: int
    waits_for: str | None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A class of jobs that was refused, and why. since: UTC microseconds."""

    queue: str
    kind: str
    version: int
    since: int
    waits_for: str
    sentence: str


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a class said and what it took; None is unknown."""

    kind: str
    version: int
    sequences: int
    items: int
    duration_ms: int
    declared_bytes: int
    declared_item_bytes: int
    peak_bytes: int | None
    worst_item_bytes: int | None


class ResourcePage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the governor knows. pressure: what speaks against new work now, empty when nothing does."""

    contract: Literal["perenne.resources.v1"]
    machine: Machine
    capacity: Capacity
    free: Capacity
    kept_bytes: int
    pressure: str
    holding: list[Holding]
    waiting: list[Waiting]
    measured: list[Measured]


def look(workspace: Workspace, driver: Driver) -> ResourcePage:
    """The page as it stands now.

    Raises: InvalidInput: the policy in the manifest cannot be read.
    """
    policy = governor_rule.of(workspace)
    machine = Sampler(time.monotonic).look()
    account = Accounts(driver).look()
    whole = resources.capacity(machine, policy)
    taken = resources.total(one.reservation for one in account.held)
    return ResourcePage(
        contract="perenne.resources.v1",
        machine=machine,
        capacity=whole,
        free=resources.left(whole, taken),
        kept_bytes=policy.kept_bytes(machine),
        pressure=pressure.signal(machine, policy, Pressure().swapped_pages, taken.threads),
        holding=_holding(account),
        waiting=_waiting(account),
        measured=_measured(account),
    )


def _holding(account: Account) -> list[Holding]:
    return [
        Holding(
            job=one.job_id,
            kind=one.kind,
            version=one.version,
            batch=one.reservation.batch,
            memory_bytes=one.reservation.memory_bytes,
            threads=one.reservation.threads,
            gpu_slots=one.reservation.gpu_slots,
            io_slots=one.reservation.io_slots,
            sequence=one.sequence,
            since=one.at,
            waits_for=one.waits_for,
        )
        for one in account.held
    ]


def _waiting(account: Account) -> list[Waiting]:
    return [
        Waiting(
            queue=one.queue,
            kind=one.kind,
            version=one.version,
            since=one.since,
            waits_for=one.waits_for,
            sentence=one.sentence,
        )
        for one in account.parked
    ]


def _measured(account: Account) -> list[Measured]:
    return [
        Measured(
            kind=one.kind,
            version=one.version,
            sequences=one.sequences,
            items=one.items,
            duration_ms=one.duration_ms,
            declared_bytes=said.memory_bytes,
            declared_item_bytes=said.memory_per_item_bytes,
            peak_bytes=one.peak_bytes,
            worst_item_bytes=one.worst_item_bytes,
        )
        for one in account.usages
        for said in (estimate.read(one.estimate),)
    ]
