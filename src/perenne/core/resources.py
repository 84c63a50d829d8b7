"""What there is and what is given away: the machine as it was seen, the policy, capacity and reservations as values.

What does not live here: how the machine is looked at (`runtime.machine`), and who is given what (`verdicts`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MEMORY_KEPT, MEMORY_EMERGENCY, CPUS_KEPT = 4, 8, 4  # one part in so many


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the machine. None is *unknown*, which is never the same as nothing.

    Args: at_s: monotonic seconds. total_bytes, available_bytes: the least that memory and the limits of our control
    groups leave. load: of the last minute. cpu, memory, io_percent: of the last ten seconds, in which something waited
    (PSI). swapped_pages: in and out since the machine started. own_share: the part of the CPU time of the last minute
    that was ours, 0 to 1. own_bytes: memory that our processes hold. gpus: None: unknown.
    """

    at_s: float
    cpus: int = 1
    total_bytes: int | None = None
    available_bytes: int | None = None
    load: float | None = None
    cpu_percent: float | None = None
    memory_percent: float | None = None
    io_percent: float | None = None
    swapped_pages: int | None = None
    own_share: float | None = None
    own_bytes: int | None = None
    gpus: int | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept for the desktop, and from where on others count as pressure; None: the default for the machine.

    Args: memory_kept_bytes: a quarter. memory_limit_bytes: the most that is given away. memory_emergency_bytes: an
    eighth. cpus_kept: a quarter, at least 1 of more than 2. load_ratio: of the CPUs. cpu, memory, io_percent: of PSI.
    io_slots. gpu_slots: as many as GPUs. gpu_memory_bytes: nobody measures it, so it is said here. ageing_s: how long
    a job waits for room before room is kept for it.
    """

    memory_kept_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_emergency_bytes: int | None = None
    cpus_kept: int | None = None
    load_ratio: float = 0.9
    cpu_percent: float = 20.0
    memory_percent: float = 1.0
    io_percent: float = 80.0
    io_slots: int = 1
    gpu_slots: int | None = None
    gpu_memory_bytes: int | None = None
    ageing_s: float = 30.0

    def kept_bytes(self, machine: Machine) -> int:
        """Memory that is not given away."""
        return (
            self.memory_kept_bytes if self.memory_kept_bytes is not None else (machine.total_bytes or 0) // MEMORY_KEPT
        )

    def emergency_bytes(self, machine: Machine) -> int:
        """So little available memory stops all new work."""
        if self.memory_emergency_bytes is not None:
            return self.memory_emergency_bytes
        return min((machine.total_bytes or 0) // MEMORY_EMERGENCY, self.kept_bytes(machine))


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """What one sequence holds."""

    batch: int
    memory_bytes: int = 0
    gpu_memory_bytes: int = 0
    threads: int = 1
    gpu_slots: int = 0
    io_slots: int = 0


NOTHING = Reservation(batch=0, threads=0)


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What can be given away in all, on one machine; None is unknown."""

    memory_bytes: int | None
    gpu_memory_bytes: int | None
    threads: int
    gpu_slots: int
    io_slots: int


def capacity(machine: Machine, policy: Policy) -> Capacity:
    """What this machine has for reservations when it is idle; at least one thread."""
    kept = policy.cpus_kept
    if kept is None:
        kept = max(machine.cpus // CPUS_KEPT, 1) if machine.cpus > 2 else 0
    memory = None if machine.total_bytes is None else max(machine.total_bytes - policy.kept_bytes(machine), 0)
    if memory is not None and policy.memory_limit_bytes is not None:
        memory = min(memory, policy.memory_limit_bytes)
    return Capacity(
        memory_bytes=memory,
        gpu_memory_bytes=policy.gpu_memory_bytes,
        threads=max(machine.cpus - kept, 1),
        gpu_slots=(machine.gpus or 0) if policy.gpu_slots is None else policy.gpu_slots,
        io_slots=policy.io_slots,
    )


def total(reservations: Iterable[Reservation]) -> Reservation:
    """All of them as one."""
    batch = memory = gpu_memory = threads = gpu_slots = io_slots = 0
    for one in reservations:
        batch += one.batch
        memory += one.memory_bytes
        gpu_memory += one.gpu_memory_bytes
        threads += one.threads
        gpu_slots += one.gpu_slots
        io_slots += one.io_slots
    return Reservation(
        batch=batch,
        memory_bytes=memory,
        gpu_memory_bytes=gpu_memory,
        threads=threads,
        gpu_slots=gpu_slots,
        io_slots=io_slots,
    )


def left(capacity: Capacity, taken: Reservation) -> Capacity:
    """What is not taken, never less than nothing."""
    return Capacity(
        memory_bytes=_rest(capacity.memory_bytes, taken.memory_bytes),
        gpu_memory_bytes=_rest(capacity.gpu_memory_bytes, taken.gpu_memory_bytes),
        threads=max(capacity.threads - taken.threads, 0),
        gpu_slots=max(capacity.gpu_slots - taken.gpu_slots, 0),
        io_slots=max(capacity.io_slots - taken.io_slots, 0),
    )


def holds(capacity: Capacity, taken: Reservation) -> bool:
    """Whether so much can be given away; what is unknown holds nothing but nothing."""
    return (
        taken.memory_bytes <= (capacity.memory_bytes or 0)
        and taken.gpu_memory_bytes <= (capacity.gpu_memory_bytes or 0)
        and taken.threads <= capacity.threads
        and taken.gpu_slots <= capacity.gpu_slots
        and taken.io_slots <= capacity.io_slots
    )


def _rest(all: int | None, taken: int) -> int | None:
    return None if all is None else max(all - taken, 0)
