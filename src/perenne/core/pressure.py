"""The pressure zones: what the last distinct looks at the machine say about taking on new work.

A pure state machine. Each look counts once, however often it is asked about; running work is never its business.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from perenne.core.resources import Machine, Policy

HEALTHY_A_STEP = 3  # healthy looks for each step back, and for each doubling of the slow start
SLOW_START_MOST = 1 << 20  # no batch is larger: from here on it binds nobody


class Zone(StrEnum):
    """How the machine is doing."""

    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered between two looks.

    Args: at_s: of the last look that counted. healthy: looks without a signal since the last step. most: the largest
    batch of a slow start, None when none goes on. swapped_pages: as the last look that knew saw it.
    """

    zone: Zone = Zone.GREEN
    at_s: float = float("-inf")
    signals: int = 0  # consecutive
    healthy: int = 0
    most: int | None = None
    swapped_pages: int | None = None
    signal: str = ""  # the sentence of the last one, empty after a healthy look


def foreign_load(machine: Machine, own_threads: int) -> float | None:
    """The load that is not ours; where our share is unknown, our reservations explain one for each thread."""
    if machine.load is None:
        return None
    if machine.own_share is None:
        return max(machine.load - own_threads, 0.0)
    return machine.load * (1.0 - machine.own_share)


def foreign_cpu_percent(machine: Machine, own_threads: int) -> float | None:
    """The CPU pressure that is not ours; where our share is unknown, whatever of ours runs explains it."""
    if machine.cpu_percent is None:
        return None
    if machine.own_share is None:
        return 0.0 if own_threads else machine.cpu_percent
    return machine.cpu_percent * (1.0 - machine.own_share)


def signal(machine: Machine, policy: Policy, swapped_before: int | None, own_threads: int = 0) -> str:
    """What speaks against new work, as a sentence without its end; empty when nothing does. A limit of 0 is none."""
    available, kept = machine.available_bytes, policy.kept_bytes(machine)
    if available is not None and available <= kept and kept:
        return f"{mib(available)} of memory are available, {mib(kept)} are kept for others"
    for what, percent, limit in (
        ("memory", machine.memory_percent, policy.memory_percent),
        ("the CPU", foreign_cpu_percent(machine, own_threads), policy.cpu_percent),
        ("the disk", machine.io_percent, policy.io_percent),
    ):
        if percent is not None and limit and percent >= limit:
            return f"others wait for {what} {percent:.0f} % of the time, the limit is {limit:g} %"
    if swapped_before is not None and machine.swapped_pages is not None and machine.swapped_pages > swapped_before:
        return "the machine is swapping"
    return ""


def observe(pressure: Pressure, machine: Machine, policy: Policy, own_threads: int = 0) -> Pressure:
    """The pressure after one more look; the same when this look, or a later one, was counted before."""
    if machine.at_s <= pressure.at_s:
        return pressure
    found = signal(machine, policy, pressure.swapped_pages, own_threads)
    swapped = pressure.swapped_pages if machine.swapped_pages is None else machine.swapped_pages
    seen = msgspec.structs.replace(pressure, at_s=machine.at_s, swapped_pages=swapped, signal=found)
    if is_emergency(machine, policy):
        return _worse(seen, Zone.RED)
    if found:
        return _worse(seen, Zone.YELLOW if pressure.signals == 0 and pressure.zone is not Zone.RED else Zone.RED)
    return _better(seen)


def is_emergency(machine: Machine, policy: Policy) -> bool:
    """Whether so little memory is left that nothing new may begin at all."""
    floor = policy.emergency_bytes(machine)
    return machine.available_bytes is not None and floor > 0 and machine.available_bytes <= floor


def _worse(seen: Pressure, zone: Zone) -> Pressure:
    most = 1 if zone is Zone.RED else seen.most
    return msgspec.structs.replace(seen, zone=zone, signals=seen.signals + 1, healthy=0, most=most)


def _better(seen: Pressure) -> Pressure:
    healthy = seen.healthy + 1
    most = 1 if seen.zone is Zone.YELLOW else seen.most
    if healthy < HEALTHY_A_STEP:
        return msgspec.structs.replace(seen, signals=0, healthy=healthy, most=most)
    zone = Zone.YELLOW if seen.zone is Zone.RED else Zone.GREEN
    if seen.zone is Zone.GREEN and most is not None:
        most = most * 2 if most * 2 < SLOW_START_MOST else None
    return msgspec.structs.replace(seen, zone=zone, signals=0, healthy=0, most=most)


def mib(size_bytes: int) -> str:
    """A size for people."""
    return f"{size_bytes / (1 << 20):,.0f} MiB"
