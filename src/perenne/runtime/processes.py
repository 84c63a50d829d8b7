"""How much of the CPU time and the memory of this machine belongs to our processes and all that descends from them.

What does not live here: what is concluded from it (`core.pressure`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LOAD_S = 60.0  # the load is an average over so long, and so is our share of it
BUSY_COLUMNS = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal


class _Process(NamedTuple):
    parent: int
    ticks: int
    pages: int


class Processes:
    """Remembers the last look, for CPU time is only known as a difference."""

    def __init__(self, proc: Path, roots: Callable[[], Collection[int]]) -> None:
        self._proc, self._roots = proc, roots
        self._before: tuple[float, int, int] | None = None
        self._share: float | None = None

    def own(self, now: float) -> tuple[float | None, int | None]:
        """Our part of the CPU time of about the last minute, 0 to 1 (None: not known yet), and the bytes we hold.

        Raises: OSError, ValueError: the machine does not say.
        """
        busy = self._busy_ticks()
        ours = self._ours()
        ticks = sum(one.ticks for one in ours)
        if self._before is not None:
            self._learn(now - self._before[0], busy - self._before[1], ticks - self._before[2])
        self._before = now, busy, ticks
        return self._share, sum(one.pages for one in ours) * PAGE_BYTES

    def _learn(self, seconds: float, busy: int, ours: int) -> None:
        if busy <= 0 or seconds <= 0:
            return
        share = min(max(ours / busy, 0.0), 1.0)
        keeps = math.exp(-seconds / LOAD_S) if self._share is not None else 0.0
        self._share = share if self._share is None else self._share * keeps + share * (1 - keeps)

    def _busy_ticks(self) -> int:
        with (self._proc / "stat").open("rb") as opened:
            words = opened.readline(4_096).split()
        if words[:1] != [b"cpu"]:
            raise ValueError("no line of all CPUs")
        ticks = [int(word) for word in words[1:]]
        return sum(ticks[column] for column in BUSY_COLUMNS if column < len(ticks))

    def _ours(self) -> list[_Process]:
        known: dict[int, _Process] = {}
        children: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):
            if name.isdigit() and (one := self._read(name)) is not None:
                known[int(name)] = one
                children.setdefault(one.parent, []).append(int(name))
        todo, found = list(self._roots()), set[int]()
        while todo:
            pid = todo.pop()
            if pid not in found:
                found.add(pid)
                todo += children.get(pid, [])
        return [known[pid] for pid in found if pid in known]

    def _read(self, pid: str) -> _Process | None:
        """One process; None when it has ended, or its line makes no sense."""
        try:
            with (self._proc / pid / "stat").open("rb") as opened:
                words = opened.read(4_096).rpartition(b")")[2].split()
            return _Process(int(words[1]), sum(map(int, words[11:15])), max(int(words[21]), 0))
        except (OSError, ValueError, IndexError):
            return None
