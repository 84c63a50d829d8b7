"""How soon a job whose worker is killed runs in another live worker, and that a stopped worker loses nothing.

Two worker processes share a workspace. A kill is measured from the signal to the start of the job's next attempt in the
other. In a round of SIGSTOP and SIGCONT the other worker works meanwhile, thus looks at all others, and must take
nothing.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figures import Figure
from hands import APP, HOLD, WorkerProcess
from rivals import KIND, Case, open_engine

from perenne import Engine, JobState

STOPPED_S = 0.2
LIMIT_S = 30.0


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """Milliseconds of all kills, and how often a stopped worker lost its job."""
    times = 10 if quick else 100
    with open_engine(folder / "workspace", None, APP) as engine:
        taken_ms = _kills(engine, folder, times)
        false = _stops(engine, folder, times)
    figures = [
        Figure("kill to start elsewhere, median", statistics.median(taken_ms), "ms", "", taken_ms),
        Figure("kill to start elsewhere, 99 of 100", _percentile(taken_ms, 99), "ms", "<= 1000"),
        Figure(f"takeovers from a stopped worker in {times} rounds", false, "jobs", "<= 0"),
    ]
    return {"kills": times, "stops": times, "stopped_s": STOPPED_S}, figures


def _percentile(values: list[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def _kills(engine: Engine, folder: Path, times: int) -> list[float]:
    workers = [WorkerProcess(engine.workspace.root) for _ in range(2)]
    try:
        return [_kill(engine, folder / f"gate-{number}", workers) for number in range(times)]
    finally:
        for worker in workers:
            worker.end()


def _kill(engine: Engine, gate: Path, workers: list[WorkerProcess]) -> float:
    """Milliseconds until the job of a killed worker runs in the other; a new one takes the dead one's place."""
    job = engine.submit(HOLD, str(gate)).job_id
    holder = _first_to_start(workers, job)
    other = workers[1 - workers.index(holder)]
    killed_ns = time.monotonic_ns()
    holder.signal(signal.SIGKILL)
    started_ns = int(other.hear("started", job)[2])
    gate.touch()
    _completed(engine, job)
    holder.end()
    workers[workers.index(holder)] = WorkerProcess(engine.workspace.root)
    return (started_ns - killed_ns) / 1e6


def _stops(engine: Engine, folder: Path, times: int) -> int:
    """How many jobs did not stay with their stopped worker."""
    workers = [WorkerProcess(engine.workspace.root) for _ in range(2)]
    try:
        return sum(_stop(engine, folder / f"stop-{number}", workers) for number in range(times))
    finally:
        for worker in workers:
            worker.end()


def _stop(engine: Engine, gate: Path, workers: list[WorkerProcess]) -> bool:
    """Whether somebody took the job while its worker was stopped."""
    job = engine.submit(HOLD, str(gate)).job_id
    holder = _first_to_start(workers, job)
    with _stopped(holder):
        until = time.monotonic() + STOPPED_S
        while time.monotonic() < until:
            _completed(engine, engine.submit(KIND, Case("own-mail-01.eml", 1)).job_id)  # by the other worker
        kept = engine.job(job)
    gate.touch()
    _completed(engine, job)
    return (kept.state, kept.number) != (JobState.RUNNING, 1) or len(engine.attempts(job)) != 1


@contextlib.contextmanager
def _stopped(worker: WorkerProcess) -> Iterator[None]:
    worker.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        worker.signal(signal.SIGCONT)


def _first_to_start(workers: list[WorkerProcess], job: str) -> WorkerProcess:
    """The worker that runs the job now."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for worker in workers:
            for words in worker.read(0.002):
                if words[:2] == ["started", job]:
                    return worker
    raise TimeoutError(f"job {job}: no worker started it in {LIMIT_S:g} s")


def _completed(engine: Engine, job: str) -> None:
    state = engine.wait(job, LIMIT_S).state
    assert state is JobState.COMPLETED, f"job {job}: {state}"


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py takeover")
