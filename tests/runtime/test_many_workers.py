"""Several worker processes share one workspace: death is learnt by waiting, and only death takes a job away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the app is a program too, started by its path

import many_app
import pytest

import perenne
from perenne import Engine, JobState

HERE = Path(__file__).parent


@contextmanager
def worker(root: Path, slots: int = 1) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(HERE / "many_app.py"), str(root), str(slots)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def until(holds: Callable[[], bool], within_s: float = 10.0) -> float:
    """Seconds until it holds; fails when the time is over."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < within_s, "it never came to hold"
        time.sleep(0.002)  # reason: another process is observed from outside, which gives no signal
    return time.monotonic() - started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    perenne.create(folder, many_app.app, name="many", specimen=True)
    return folder


def runs_of(folder: Path, job_id: str) -> list[int]:
    """The processes that began this job, by attempt."""
    marks = sorted((int(path.name.split(".")[1]), int(path.name.split(".")[2])) for path in folder.glob(f"{job_id}.*"))
    return [pid for _, pid in marks]


def submit_hold(engine: Engine, gate: Path) -> str:
    return engine.submit("hold", {"gate": str(gate)}).job_id


def test_a_killed_workers_job_runs_in_another_within_a_second(root: Path, tmp_path: Path) -> None:
    """After SIGKILL the job runs in another live worker under a second later, as attempt 2, interrupted once."""
    gate = tmp_path / "gate"
    with perenne.open(root, many_app.app) as engine, worker(root) as one, worker(root) as two:
        job_id = submit_hold(engine, gate)
        until(lambda: len(runs_of(tmp_path, job_id)) == 1)
        first = runs_of(tmp_path, job_id)[0]
        os.kill(first, signal.SIGKILL)
        took_s = until(lambda: len(runs_of(tmp_path, job_id)) == 2)
        gate.touch()
        job = engine.wait(job_id, 10)
        other = ({one.pid, two.pid} - {first}).pop()
    assert took_s < 1.0
    assert (job.state, job.number, job.interruptions, job.result) == (JobState.COMPLETED, 2, 1, f'"{other}"'.encode())


def test_a_stopped_worker_keeps_its_job(root: Path, tmp_path: Path) -> None:
    """SIGSTOP is not death: nobody takes the job of a stopped worker, and it ends there after SIGCONT."""
    gate = tmp_path / "gate"
    with perenne.open(root, many_app.app) as engine, worker(root), worker(root):
        job_id = submit_hold(engine, gate)
        until(lambda: len(runs_of(tmp_path, job_id)) == 1)
        owner = runs_of(tmp_path, job_id)[0]
        os.kill(owner, signal.SIGSTOP)
        try:
            # The other worker is awake, looks around and works meanwhile.
            for _ in range(20):
                done = engine.wait(engine.submit("nothing", {}).job_id, 10)
                assert done.state is JobState.COMPLETED
            assert engine.job(job_id).number == 1
        finally:
            os.kill(owner, signal.SIGCONT)
        gate.touch()
        assert engine.wait(job_id, 10).result == f'"{owner}"'.encode()
    assert runs_of(tmp_path, job_id) == [owner]


def test_the_last_one_alive_takes_over_from_all(root: Path, tmp_path: Path) -> None:
    """Of four workers three are killed at once, also while they recover each other; every job still ends once."""
    gate = tmp_path / "gate"
    with perenne.open(root, many_app.app) as engine, worker(root) as a, worker(root) as b, worker(root) as c:
        with worker(root, slots=4):
            jobs = [submit_hold(engine, gate) for _ in range(6)]
            until(lambda: sum(len(runs_of(tmp_path, job)) for job in jobs) >= 6)
            for process in (a, b, c):
                process.kill()
            # Six were held; the one that lives has four slots, whichever of the six it held before.
            until(lambda: sum(engine.attempts(job)[-1].outcome is None for job in jobs) <= 4)
            gate.touch()
            ended = [engine.wait(job, 10) for job in jobs]
        present = list((root / ".perenne" / "owners").iterdir())
    assert {job.state for job in ended} == {JobState.COMPLETED}
    assert len(present) <= 1, "lock files of dead owners are left"


def test_a_worker_that_leaves_takes_its_lock_file_along(root: Path) -> None:
    """After an orderly end no owner, lock file or pipe is left."""
    with perenne.open(root, many_app.app) as engine, worker(root) as process:
        engine.wait(engine.submit("nothing", {}).job_id, 10)
        process.terminate()
        assert process.wait(10) == 0
    assert list((root / ".perenne" / "owners").iterdir()) == []
    assert list((root / ".perenne" / "wake").iterdir()) == []


def test_jobs_are_claimed_once_by_four_workers(root: Path) -> None:
    """400 jobs and four workers with four slots: each job has exactly one attempt."""
    with perenne.open(root, many_app.app) as engine, worker(root, 4), worker(root, 4), worker(root, 4), worker(root, 4):
        jobs = [engine.submit("nothing", {}).job_id for _ in range(400)]
        ended = [engine.wait(job, 30) for job in jobs]
    assert {(job.state, job.number, job.spent) for job in ended} == {(JobState.COMPLETED, 1, 1)}
