"""One look at this machine: memory with the limits of control groups, load, pressure, swap, and what of it is ours.

Each thing is read by itself; what cannot be read or makes no sense is None, unknown, and harms nothing else. What does
not live here: control groups (`cgroups`), the CPU time of processes (`processes`), and what is made of it (`core`).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from perenne.core.resources import Machine
from perenne.runtime import cgroups
from perenne.runtime.processes import Processes

T = TypeVar("T")

SAMPLE_S = 1.0  # nothing older is used
BROKEN = (OSError, ValueError, LookupError, ArithmeticError)
MOST_BYTES = 1 << 60
READ_BYTES = 1 << 20


class Sampler:
    """Looks at the machine below `root`, at most once a second."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        roots: Callable[[], Collection[int]] = lambda: (os.getpid(),),
        root: Path = Path("/"),
    ) -> None:
        """Args: roots: processes that are ours, with all that descends from them."""
        self._monotonic, self._root, self._proc = monotonic, root, root / "proc"
        self._processes = Processes(self._proc, roots)
        self._last: Machine | None = None

    def look(self) -> Machine:
        """The machine as it is now, or as it was less than a second ago."""
        now = self._monotonic()
        if self._last is None or not 0 <= now - self._last.at_s < SAMPLE_S:
            self._last = self._sample(now)
        return self._last

    def _sample(self, now: float) -> Machine:
        total, available = attempt(self._memory) or (None, None)
        for limit, free in attempt(lambda: cgroups.memory(self._root)) or ():
            total, available = _least(total, limit), _least(available, free)
        cpus = attempt(self._cpus) or 1
        quota = attempt(lambda: cgroups.cpus(self._root))
        share, own_bytes = attempt(lambda: self._processes.own(now)) or (None, None)
        return Machine(
            at_s=now,
            cpus=cpus if quota is None else max(min(cpus, math.ceil(quota)), 1),
            total_bytes=total,
            available_bytes=_least(available, total) if available is not None else None,
            load=attempt(self._load),
            cpu_percent=attempt(lambda: self._pressure("cpu")),
            memory_percent=attempt(lambda: self._pressure("memory")),
            io_percent=attempt(lambda: self._pressure("io")),
            swapped_pages=attempt(self._swapped),
            own_share=share,
            own_bytes=own_bytes,
            gpus=attempt(self._gpus),
        )

    def _memory(self) -> tuple[int, int]:
        fields = dict(line.split(":", 1) for line in text(self._proc / "meminfo").splitlines() if ":" in line)
        total, available = (_kib(fields[name]) for name in ("MemTotal", "MemAvailable"))
        if total == 0:
            raise ValueError("a machine without memory")
        return total, available

    def _load(self) -> float:
        return _sane(float(text(self._proc / "loadavg").split()[0]), 1e6)

    def _pressure(self, name: str) -> float:
        some = text(self._proc / "pressure" / name).splitlines()[0].split()
        if some[0] != "some":
            raise ValueError(f"unknown line {some[0]!r}")
        fields = dict(word.split("=", 1) for word in some[1:])
        return _sane(float(fields["avg10"]), 100.0)

    def _swapped(self) -> int:
        fields = dict(line.split(" ", 1) for line in text(self._proc / "vmstat").splitlines() if " " in line)
        return int(_sane(int(fields["pswpin"]) + int(fields["pswpout"]), 1 << 62))

    def _cpus(self) -> int:
        if self._root == Path("/") and hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return sum(line[:3] == "cpu" and line[3:4].isdigit() for line in text(self._proc / "stat").splitlines())

    def _gpus(self) -> int:
        folder = self._proc / "driver" / "nvidia" / "gpus"
        return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def attempt(read: Callable[[], T]) -> T | None:
    """What it reads, or None where the machine does not say or says no sense."""
    with contextlib.suppress(*BROKEN):
        return read()
    return None


def text(file: Path) -> str:
    """A small file of the kernel; no more than 1 MiB of it.

    Raises: OSError.
    """
    with file.open("rb") as opened:
        return opened.read(READ_BYTES).decode("ascii", "replace")


def _kib(field: str) -> int:
    return int(_sane(int(field.split()[0]), MOST_BYTES >> 10)) * 1024


def _sane(number: float, most: float) -> float:
    """Raises: ValueError: no number of this sort is less than nothing, or so large."""
    if not 0 <= number <= most:
        raise ValueError(f"{number} makes no sense")
    return number


def _least(one: int | None, other: int | None) -> int | None:
    known = [size for size in (one, other) if size is not None]
    return min(known) if known else None
