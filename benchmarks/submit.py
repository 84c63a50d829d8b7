"""Durable submits by one caller and by many against a bare loop of insert and commit, in the same run.

On the machine's own disk, then with 2 ms added to every sync.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import Figure
from rivals import BareLoop, a_row_of, open_engine, submit
from slow_disk import NAME, SYNC_S, SlowDisk

from perenne import Engine

RATIO = ">= 0.8"
THREADS = (8, 64)
SHARED = {
    ("own disk", 8): ">= 1.8",
    ("own disk", 64): ">= 3",
    ("2 ms more a sync", 8): ">= 3",
    ("2 ms more a sync", 64): ">= 12",
}
EACH = 20  # submits of each of many threads in a round, at least
WARM_UP = 1_500  # rows until both logs were carried over once: from then on neither file grows with each commit


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of both disks."""
    counts = {"own disk": 200 if quick else 1_000, "2 ms more a sync": 50 if quick else 200}
    slow = SlowDisk()
    figures = _disk(folder / "own", "own disk", None, counts["own disk"], rounds)
    figures += _disk(folder / "slow", "2 ms more a sync", slow, counts["2 ms more a sync"], rounds)
    settings = {"rounds": rounds, "submits_a_round": counts, "warm_up": WARM_UP, "added_to_a_sync_s": SYNC_S}
    return settings, figures


def _disk(folder: Path, name: str, slow: SlowDisk | None, count: int, rounds: int) -> list[Figure]:
    folder.mkdir()
    vfs = None if slow is None else NAME
    with open_engine(folder / "workspace", vfs) as engine:
        bare = BareLoop(folder / "bare.sqlite", a_row_of(engine), vfs)
        _warm(engine, bare, slow)
        bare_s, engine_s = _rounds(engine, bare, count, rounds)
        shared = [figure for threads in THREADS for figure in _many(engine, bare, name, count, threads, rounds)]
        bare.close()
    ratios = [bare / engine for bare, engine in zip(bare_s, engine_s, strict=True)]
    return [
        Figure(f"{name}: submit / bare loop", statistics.median(ratios), "ratio", RATIO, ratios),
        _latency(f"{name}: bare loop", bare_s, count),
        _latency(f"{name}: submit, one caller", engine_s, count),
        *shared,
    ]


def _warm(engine: Engine, bare: BareLoop, slow: SlowDisk | None) -> None:
    if slow is not None:
        slow.fast = True
    submit(engine, WARM_UP)
    bare.run(WARM_UP)
    if slow is not None:
        slow.fast = False


def _rounds(engine: Engine, bare: BareLoop, count: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds a round of the bare loop, and of one caller; who begins alternates."""
    bare_s: list[float] = []
    engine_s: list[float] = []
    for round_number in range(rounds):
        if round_number % 2:
            engine_s.append(submit(engine, count))
        bare_s.append(bare.run(count))
        if not round_number % 2:
            engine_s.append(submit(engine, count))
    return bare_s, engine_s


def _many(engine: Engine, bare: BareLoop, name: str, count: int, threads: int, rounds: int) -> list[Figure]:
    """Many callers at once; afterwards, so that both tables were of equal size for the one."""
    shared = max(count // threads, EACH) * threads
    ratios, threads_s = [], []
    for _ in range(rounds):
        bare_s = bare.run(count) / count
        threads_s.append(submit(engine, shared, threads))
        ratios.append(bare_s / threads_s[-1] * shared)
    target = SHARED[name, threads]
    return [
        Figure(f"{name}: {threads} callers / bare loop", statistics.median(ratios), "ratio", target, ratios),
        _rate(f"{name}: submit, {threads} callers", threads_s, shared),
    ]


def _latency(name: str, taken_s: Sequence[float], count: int) -> Figure:
    each_us = [taken / count * 1e6 for taken in taken_s]
    return Figure(name, statistics.median(each_us), "µs each", "", each_us)


def _rate(name: str, taken_s: Sequence[float], count: int) -> Figure:
    each_s = [count / taken for taken in taken_s]
    return Figure(name, statistics.median(each_s), "each s", "", each_s)


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py submit")
