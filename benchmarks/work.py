"""No-op jobs worked off durably, against a bare loop that commits a claim and a completion a job, in the same run.

On the machine's own disk, then with 2 ms added to every sync. The jobs are stored before the clock starts; the time of
the worker holds its start, its recovery and its end.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import Figure
from rivals import BareLoop, a_row_of, fill, open_engine
from slow_disk import NAME, SYNC_S, SlowDisk

from perenne import Engine

SLOTS = (1, 8)
TARGETS = {("own disk", 8): ">= 3", ("2 ms more a sync", 8): ">= 8"}
WARM_UP = 1_500


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of both disks."""
    counts = {
        "own disk": (300, 600) if quick else (1_000, 4_000),
        "2 ms more a sync": (50, 400) if quick else (200, 2_000),
    }
    slow = SlowDisk()
    figures = _disk(folder / "own", "own disk", None, counts["own disk"], rounds)
    figures += _disk(folder / "slow", "2 ms more a sync", slow, counts["2 ms more a sync"], rounds)
    settings = {"rounds": rounds, "jobs_a_round_bare_and_engine": counts, "added_to_a_sync_s": SYNC_S}
    return settings, figures


def _disk(folder: Path, name: str, slow: SlowDisk | None, counts: tuple[int, int], rounds: int) -> list[Figure]:
    folder.mkdir()
    vfs = None if slow is None else NAME
    with open_engine(folder / "workspace", vfs, work=True) as engine:
        bare = BareLoop(folder / "bare.sqlite", a_row_of(engine), vfs)
        _warm(engine, bare, slow)
        bare_s, engine_s, cpu_us = _rounds(engine, bare, counts, rounds)
        bare.close()
    figures = [_rate(f"{name}: bare loop", bare_s)]
    for slots in SLOTS:
        ratios = [bare / ours for bare, ours in zip(bare_s, engine_s[slots], strict=True)]
        target = TARGETS.get((name, slots), "")
        figures.append(
            Figure(f"{name}: {_said(slots)} / bare loop", statistics.median(ratios), "ratio", target, ratios)
        )
        figures.append(_rate(f"{name}: {_said(slots)}", engine_s[slots]))
        figures.append(
            Figure(f"{name}: CPU of a job, {_said(slots)}", statistics.median(cpu_us[slots]), "µs", "", cpu_us[slots])
        )
    return figures


def _said(slots: int) -> str:
    return "1 slot" if slots == 1 else f"{slots} slots"


def _warm(engine: Engine, bare: BareLoop, slow: SlowDisk | None) -> None:
    if slow is not None:
        slow.fast = True
    fill(engine, WARM_UP)
    engine.work(slots=SLOTS[-1])
    bare.work(WARM_UP)
    if slow is not None:
        slow.fast = False


def _rounds(
    engine: Engine, bare: BareLoop, counts: tuple[int, int], rounds: int
) -> tuple[list[float], dict[int, list[float]], dict[int, list[float]]]:
    """Seconds a job of the bare loop, and of so many slots, and its microseconds of CPU; who begins alternates."""
    bare_s: list[float] = []
    engine_s: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    cpu_us: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    for round_number in range(rounds):
        if not round_number % 2:
            bare_s.append(bare.work(counts[0]) / counts[0])
        for slots in SLOTS:
            # One slot commits about once a job, as the bare loop does; many end many jobs with one commit.
            count = counts[0] if slots == 1 else counts[1]
            taken_s, used_s = _work(engine, count, slots)
            engine_s[slots].append(taken_s / count)
            cpu_us[slots].append(used_s / count * 1e6)
        if round_number % 2:
            bare_s.append(bare.work(counts[0]) / counts[0])
    return bare_s, engine_s, cpu_us


def _work(engine: Engine, count: int, slots: int) -> tuple[float, float]:
    """Seconds until so many stored jobs are acknowledged, and the CPU they took."""
    fill(engine, count)
    started, used_s = time.perf_counter(), time.process_time()
    report = engine.work(slots=slots)
    taken_s = time.perf_counter() - started
    assert report.ended == count, f"{report.ended} of {count} jobs ended"
    return taken_s, time.process_time() - used_s


def _rate(name: str, each_s: Sequence[float]) -> Figure:
    rates = [1 / seconds for seconds in each_s]
    return Figure(name, statistics.median(rates), "jobs a s", "", rates)


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py work")
