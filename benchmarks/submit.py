"""Durable submits by one caller against a bare loop of insert and commit, in the same run.

On the machine's own disk, then with 2 ms added to every sync. Many threads are measured for information.
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
        bare_s, engine_s, threads_s = _rounds(engine, bare, count, rounds)
        bare.close()
    ratios = [bare / engine for bare, engine in zip(bare_s, engine_s, strict=True)]
    return [
        Figure(f"{name}: submit / bare loop", statistics.median(ratios), "ratio", RATIO, ratios),
        _latency(f"{name}: bare loop", bare_s, count),
        _latency(f"{name}: submit, one caller", engine_s, count),
        *(_rate(f"{name}: submit, {n} threads", taken_s, count) for n, taken_s in threads_s.items()),
    ]


def _warm(engine: Engine, bare: BareLoop, slow: SlowDisk | None) -> None:
    if slow is not None:
        slow.fast = True
    submit(engine, WARM_UP)
    bare.run(WARM_UP)
    if slow is not None:
        slow.fast = False


def _rounds(
    engine: Engine, bare: BareLoop, count: int, rounds: int
) -> tuple[list[float], list[float], dict[int, list[float]]]:
    """Seconds a round of the bare loop, of one caller, and of so many threads; who begins alternates."""
    bare_s: list[float] = []
    engine_s: list[float] = []
    for round_number in range(rounds):
        if round_number % 2:
            engine_s.append(submit(engine, count))
        bare_s.append(bare.run(count))
        if not round_number % 2:
            engine_s.append(submit(engine, count))
    # Afterwards, so that until here both tables are of equal size.
    shared = {number: count // number * number for number in THREADS}
    threads_s = {
        number: [submit(engine, shared[number], number) * count / shared[number] for _ in range(rounds)]
        for number in THREADS
    }
    return bare_s, engine_s, threads_s


def _latency(name: str, taken_s: Sequence[float], count: int) -> Figure:
    each_us = [taken / count * 1e6 for taken in taken_s]
    return Figure(name, statistics.median(each_us), "µs each", "", each_us)


def _rate(name: str, taken_s: Sequence[float], count: int) -> Figure:
    each_s = [count / taken for taken in taken_s]
    return Figure(name, statistics.median(each_s), "each s", "", each_s)


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py submit")
