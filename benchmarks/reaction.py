"""How soon a handler ends after a pause and after a cancel of another process: one boundary and a little more.

The handler walks from boundary to boundary. It is asked at a moment between two of them that differs each time; what is
told is the time from the call to its end beyond the one boundary that it may still have to walk to. A bare pipe and a
commit stand beside it in the same run.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure
from hands import APP, STEP, WorkerProcess
from rivals import open_engine
from slow_disk import NAME, SYNC_S, SlowDisk
from wake import BareSleeper

from perenne import Engine, Job

STEP_MS = 50
PHASES = 10  # moments between two boundaries at which it is asked


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of both disks."""
    times = 5 if quick else 20
    slow = SlowDisk()
    figures = _disk(folder / "own", "own disk", None, rounds, times)
    figures += _disk(folder / "slow", "2 ms more a sync", NAME, rounds, times)
    del slow
    return {"rounds": rounds, "times_a_round": times, "boundary_ms": STEP_MS, "added_to_a_sync_s": SYNC_S}, figures


def _disk(folder: Path, name: str, vfs: str | None, rounds: int, times: int) -> list[Figure]:
    folder.mkdir()
    with open_engine(folder / "workspace", vfs, APP) as engine:
        bare = BareSleeper(folder / "bare.sqlite", folder / "workspace", vfs)
        worker = WorkerProcess(engine.workspace.root, vfs)
        try:
            bare_ms, ours_ms = _rounds(engine, worker, bare, rounds, times)
        finally:
            worker.end()
            bare.end()
    return [
        Figure(f"{name}: pipe and commit", statistics.median(bare_ms), "ms", "", bare_ms),
        *(figure for verb, taken_ms in ours_ms.items() for figure in _figures(f"{name}: {verb}", taken_ms)),
    ]


def _figures(name: str, taken_ms: list[float]) -> list[Figure]:
    return [
        Figure(f"{name} to end, median", statistics.median(taken_ms), "ms", "", taken_ms),
        Figure(f"{name} beyond one boundary, slowest", max(taken_ms) - STEP_MS, "ms", "<= 100"),
    ]


def _rounds(
    engine: Engine, worker: WorkerProcess, bare: BareSleeper, rounds: int, times: int
) -> tuple[list[float], dict[str, list[float]]]:
    """Milliseconds: a median a round of the bare sleeper; of each verb, every time."""
    verbs: dict[str, Callable[[str], Job | None]] = {"pause": engine.pause, "cancel": engine.cancel}
    bare_ms: list[float] = []
    taken_ms: dict[str, list[float]] = {verb: [] for verb in verbs}
    for _ in range(rounds):
        bare_ms.append(statistics.median(bare.wake() for _ in range(times)) / 1000)
        for verb, ask in verbs.items():
            taken_ms[verb] += [_reaction(engine, worker, ask, number % PHASES) for number in range(times)]
    return bare_ms, taken_ms


def _reaction(engine: Engine, worker: WorkerProcess, ask: Callable[[str], Job | None], phase: int) -> float:
    """Milliseconds from the call in this process to the moment at which the handler of the other one ends."""
    job = engine.submit(STEP, STEP_MS).job_id
    worker.hear("started", job)
    time.sleep(STEP_MS / 1000 * (1 + phase / PHASES))  # what is asked shall come between two boundaries
    asked_ns = time.monotonic_ns()
    ask(job)
    return (int(worker.hear("left", job)[1]) - asked_ns) / 1e6


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py reaction")
