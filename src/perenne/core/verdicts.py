"""The four verdicts: whether a job may begin a sequence now, with how much, or why not, in one sentence.

A pure function of what is known. What does not live here: who asks, in which order, and where reservations are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from perenne.core.estimate import Estimate
from perenne.core.pressure import Pressure, Zone, foreign_cpu_percent, foreign_load, is_emergency, mib
from perenne.core.resources import Capacity, Machine, Policy, Reservation, left, total

Answer = Literal["admit", "reduced", "wait", "reject"]
WaitsFor = Literal["", "room", "pressure", "other"]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What all verdicts of one moment have in common."""

    machine: Machine
    policy: Policy
    capacity: Capacity
    pressure: Pressure


class Verdict(msgspec.Struct, frozen=True):
    """The governor's answer. waits_for: what ends a wait: room that others give back, or a calmer machine."""

    answer: Answer
    sentence: str
    grant: Reservation | None = None
    waits_for: WaitsFor = ""


def judge(
    estimate: Estimate,
    situation: Situation,
    live: Sequence[Reservation],
    *,
    kept: Reservation | None = None,
    worst_item_bytes: int = 0,
    first: bool = True,
) -> Verdict:
    """The verdict on one sequence of this estimate.

    Args:
        live: every reservation that is held on this machine; this one's own is not among them.
        kept: room that is kept for a job which has waited long; nobody behind it gets that.
        worst_item_bytes: the most memory that an item of this class was seen to take.
        first: whether no better job waits; while nothing of ours runs, the first begins, however small.
    Guarantees: with the grant added, `live` fits into the capacity, where a single smallest batch does.
    """
    estimate = estimate.bounded()
    never = impossible(estimate, situation.capacity)
    if never:
        return Verdict("reject", never)
    taken = total(live)
    held = taken if kept is None else total((taken, kept))
    alone = not live and first and kept is None
    if is_emergency(situation.machine, situation.policy):
        available = situation.machine.available_bytes or 0
        return _wait(f"only {mib(available)} of memory are available, nothing begins below that floor", "pressure")
    pressed = _pressed(estimate, situation, taken)
    if pressed and not alone:
        return _wait(pressed, "pressure")
    return _granted(estimate, situation, taken, held, worst_item_bytes, alone, pressed)


def impossible(estimate: Estimate, capacity: Capacity) -> str:
    """Why the smallest batch fits into no idle machine of this capacity, as a sentence; empty when it may."""
    least = estimate.min_batch
    for what, wanted, there in (
        ("memory", estimate.memory_of(least), capacity.memory_bytes),
        ("GPU memory", estimate.gpu_memory_of(least), capacity.gpu_memory_bytes),
    ):
        if there is not None and wanted > there:
            return (
                f"its smallest batch, {least}, needs {mib(wanted)} of {what}, this machine gives at most {mib(there)}"
            )
    if estimate.gpu_slots > capacity.gpu_slots:
        return f"it needs {estimate.gpu_slots} GPU slots, this machine has {capacity.gpu_slots}"
    if estimate.io_slots > capacity.io_slots:
        return f"it needs {estimate.io_slots} I/O slots, this machine has {capacity.io_slots}"
    return ""


def least(estimate: Estimate) -> Reservation:
    """The room of its smallest batch, such as is kept for a job that has waited long."""
    estimate = estimate.bounded()
    return _reservation(estimate, estimate.min_batch, estimate.threads)


def _pressed(estimate: Estimate, situation: Situation, taken: Reservation) -> str:
    """Why nothing new may begin, whatever it needs; empty when it may."""
    machine, policy, pressure = situation.machine, situation.policy, situation.pressure
    if pressure.zone is Zone.RED:
        return f"the machine is in the red zone: {pressure.signal or 'it has not recovered yet'}"
    load = foreign_load(machine, taken.threads)
    if load is not None and load >= machine.cpus * policy.load_ratio:
        return f"others keep the machine busy: their load is {load:.1f} on {machine.cpus} CPUs"
    cpu = foreign_cpu_percent(machine, taken.threads)
    if cpu is not None and policy.cpu_percent and cpu >= policy.cpu_percent:
        return f"others wait for the CPU {cpu:.0f} % of the time"
    if machine.memory_percent is not None and policy.memory_percent and machine.memory_percent >= policy.memory_percent:
        return f"others wait for memory {machine.memory_percent:.0f} % of the time"
    busy = machine.io_percent is not None and policy.io_percent and machine.io_percent >= policy.io_percent
    if estimate.io_slots and busy:
        return f"others wait for the disk {machine.io_percent:.0f} % of the time"
    if machine.total_bytes is None or machine.available_bytes is None:
        return "it is not known how much memory this machine has left"
    if situation.capacity.gpu_memory_bytes is None and estimate.gpu_memory_of(estimate.min_batch):
        return "it is not known how much GPU memory this machine has; set gpu_memory_bytes of [governor]"
    return ""


def _granted(
    estimate: Estimate,
    situation: Situation,
    taken: Reservation,
    held: Reservation,
    worst_item_bytes: int,
    alone: bool,
    pressed: str,
) -> Verdict:
    free = left(situation.capacity, held)
    for what, wanted, there in (
        ("threads", 1, free.threads),
        ("GPU slots", estimate.gpu_slots, free.gpu_slots),
        ("I/O slots", estimate.io_slots, free.io_slots),
    ):
        if wanted > there:
            return _wait(f"it needs {wanted} {what}, {there} are free", "room")
    room = _memory_room(situation, taken, free)
    item_bytes = max(estimate.memory_per_item_bytes, worst_item_bytes)
    fits = _fits(estimate.memory_bytes, item_bytes, room, estimate.max_batch)
    fits = min(fits, _fits(estimate.gpu_memory_bytes, estimate.gpu_memory_per_item_bytes, free.gpu_memory_bytes, fits))
    capped = _capped(fits, estimate, situation.pressure)
    if pressed or (alone and capped < estimate.min_batch):
        capped = estimate.min_batch
    if capped < estimate.min_batch:
        return _no_room(estimate, fits, item_bytes, room, free)
    threads = min(estimate.threads, free.threads)
    grant = _reservation(estimate, capped, threads)
    if item_bytes > estimate.memory_per_item_bytes and free.memory_bytes is not None:
        seen = min(estimate.memory_bytes + item_bytes * capped, free.memory_bytes)
        grant = msgspec.structs.replace(grant, memory_bytes=max(grant.memory_bytes, seen))
    if capped == estimate.max_batch and threads == estimate.threads:
        return Verdict("admit", f"a batch of {capped} with {threads} threads", grant)
    wished = f"a batch of {capped} instead of {estimate.max_batch}, {threads} threads instead of {estimate.threads}"
    return Verdict("reduced", wished, grant)


def _memory_room(situation: Situation, taken: Reservation, free: Capacity) -> int | None:
    """Bytes for one more: of the account, and of what is really available beside what is promised but not yet used."""
    machine = situation.machine
    if machine.available_bytes is None or free.memory_bytes is None:
        return free.memory_bytes
    unused = max(taken.memory_bytes - (machine.own_bytes or 0), 0)
    really = machine.available_bytes - situation.policy.kept_bytes(machine) - unused
    return max(min(free.memory_bytes, really), 0)


def _fits(fixed: int, each: int, room: int | None, most: int) -> int:
    """How many items fit into so much room; 0 when not even one does."""
    if room is None or fixed + each * most <= room:
        return most
    return max(room - fixed, 0) // each if each else 0


def _capped(fits: int, estimate: Estimate, pressure: Pressure) -> int:
    if pressure.zone is Zone.YELLOW:
        fits = min(fits, max(estimate.max_batch // 2, estimate.min_batch))
    return fits if pressure.most is None else min(fits, pressure.most)


def _no_room(estimate: Estimate, fits: int, item_bytes: int, room: int | None, free: Capacity) -> Verdict:
    """The wait for room: of our own account others give it back, of the machine nobody tells us."""
    smallest = estimate.min_batch
    if fits >= smallest:
        return _wait(f"the machine recovers; a batch of {smallest} is still too large for its slow start", "pressure")
    wanted = estimate.memory_bytes + item_bytes * smallest
    if room is not None and wanted > room:
        whose: WaitsFor = "room" if room == free.memory_bytes else "pressure"
        return _wait(f"its smallest batch, {smallest}, needs {mib(wanted)} of memory, {mib(room)} are free", whose)
    wanted = estimate.gpu_memory_of(smallest)
    there = mib(free.gpu_memory_bytes or 0)
    return _wait(f"its smallest batch, {smallest}, needs {mib(wanted)} of GPU memory, {there} are free", "room")


def _reservation(estimate: Estimate, batch: int, threads: int) -> Reservation:
    return Reservation(
        batch=batch,
        memory_bytes=estimate.memory_of(batch),
        gpu_memory_bytes=estimate.gpu_memory_of(batch),
        threads=threads,
        gpu_slots=estimate.gpu_slots,
        io_slots=estimate.io_slots,
    )


def _wait(sentence: str, waits_for: WaitsFor) -> Verdict:
    return Verdict("wait", sentence, None, waits_for)
