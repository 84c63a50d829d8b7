"""From a ring to the start of the handler in another process, against a bare pipe and a commit; and what idling costs.

Both sides write one byte to a sleeper in another process, which wakes, commits a claim, and says the time. The ring of
a submit follows its own commit, so that the whole way from the call is shown too, without a target.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure
from hands import APP, LIMIT_S, STAMP, WorkerProcess
from rivals import BareLoop, a_row_of, open_engine
from slow_disk import NAME, SYNC_S, SlowDisk

from perenne import Engine

SETTLE_S = 0.01  # until the sleeper sleeps again


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of both disks, and of an idle worker."""
    wakes, idle_s = (20, 2.0) if quick else (100, 10.0)
    slow = SlowDisk()
    figures = _disk(folder / "own", "own disk", None, wakes, rounds, idle_s)
    figures += _disk(folder / "slow", "2 ms more a sync", NAME, wakes, rounds, None)
    del slow
    return {"rounds": rounds, "wakes_a_round": wakes, "idle_s": idle_s, "added_to_a_sync_s": SYNC_S}, figures


def _disk(folder: Path, name: str, vfs: str | None, wakes: int, rounds: int, idle_s: float | None) -> list[Figure]:
    folder.mkdir()
    with open_engine(folder / "workspace", vfs, APP) as engine:
        bare = BareSleeper(folder / "bare.sqlite", folder / "workspace", vfs)
        worker = WorkerProcess(engine.workspace.root, vfs)
        try:
            bare_us, ring_us, call_us = _rounds(engine, worker, bare, wakes, rounds)
            idle = [] if idle_s is None else _idle(worker, idle_s)
        finally:
            worker.end()
            bare.end()
    ratios = [ours / theirs for ours, theirs in zip(ring_us, bare_us, strict=True)]
    return [
        Figure(f"{name}: ring to start / pipe and commit", statistics.median(ratios), "ratio", "<= 3", ratios),
        Figure(f"{name}: pipe and commit", statistics.median(bare_us), "µs", "", bare_us),
        Figure(f"{name}: ring to start", statistics.median(ring_us), "µs", "", ring_us),
        Figure(f"{name}: call of submit to start", statistics.median(call_us), "µs", "", call_us),
        *idle,
    ]


def _rounds(
    engine: Engine, worker: WorkerProcess, bare: BareSleeper, wakes: int, rounds: int
) -> tuple[list[float], list[float], list[float]]:
    """Medians a round, in microseconds: the bare sleeper; ours from the ring, and from the call."""
    rung = _note_rings(engine)
    bare_us, ring_us, call_us = [], [], []
    for _ in range(rounds):
        bare_us.append(statistics.median(bare.wake() for _ in range(wakes)))
        taken = [_wake(engine, worker, rung) for _ in range(wakes)]
        ring_us.append(statistics.median(one[0] for one in taken))
        call_us.append(statistics.median(one[1] for one in taken))
    return bare_us, ring_us, call_us


def _note_rings(engine: Engine) -> list[int]:
    """The list that holds the time of the last ring."""
    rung = [0]
    ring: Callable[[], int] = engine._bells.ring

    def noted() -> int:
        rung[0] = time.monotonic_ns()
        return ring()

    engine._bells.ring = noted  # type: ignore[method-assign]
    return rung


def _wake(engine: Engine, worker: WorkerProcess, rung: list[int]) -> tuple[float, float]:
    """Microseconds from the ring and from the call to the start of the handler."""
    time.sleep(SETTLE_S)  # nothing tells that a process has fallen asleep
    called_ns = time.monotonic_ns()
    job = engine.submit(STAMP, "").job_id
    started_ns = int(worker.hear("started", job)[2])
    worker.hear("ended", job)
    return (started_ns - rung[0]) / 1000, (started_ns - called_ns) / 1000


def _idle(worker: WorkerProcess, idle_s: float) -> list[Figure]:
    """What a worker with nothing to do costs."""
    time.sleep(1.0)  # until what it last did is over
    cpu_s, wake_ups = worker.cpu_s(), worker.wake_ups()
    time.sleep(idle_s)  # idling is what is measured
    share = (worker.cpu_s() - cpu_s) / idle_s * 100
    return [
        Figure("idle worker: CPU", share, "%", "<= 1"),
        Figure("idle worker: times it woke", worker.wake_ups() - wake_ups, f"in {idle_s:g} s", ""),
    ]


class BareSleeper:
    """A process that sleeps on a pipe, commits one claim when it is woken, and says the time."""

    def __init__(self, path: Path, root: Path, vfs: str | None) -> None:
        command = [sys.executable, __file__, str(path), f"{root}-like", vfs or "-"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._said()

    def _said(self) -> int:
        out = self._process.stdout
        assert out is not None
        readable, _, _ = select.select([out], [], [], LIMIT_S)
        assert readable, "the bare sleeper said nothing in time"
        return int(out.readline())

    def wake(self) -> float:
        """Microseconds from the byte to the moment after its commit."""
        time.sleep(SETTLE_S)  # nothing tells that a process has fallen asleep
        assert self._process.stdin is not None
        woken_ns = time.monotonic_ns()
        os.write(self._process.stdin.fileno(), b"!")
        return (self._said() - woken_ns) / 1000

    def end(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT_S)


def sleeper(path: str, root: str, vfs: str) -> None:
    """The program of the bare sleeper."""
    disk = SlowDisk() if vfs != "-" else None
    named = None if disk is None else vfs
    with open_engine(Path(root), named) as engine:
        bare = BareLoop(Path(path), a_row_of(engine), named)
    bare.store(10_000)
    while True:
        print(time.monotonic_ns(), flush=True)
        select.select([0], [], [])
        if not os.read(0, 1):
            return
        bare.claim()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("run it with: make bench, or python benchmarks/run.py wake")
    sleeper(*sys.argv[1:])
