"""A worker that is told to end takes its children along, at their next boundary or hard; their jobs go back unspent."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import child_app
import pytest

import perenne
from perenne import Engine, JobState, testing

S = JobState
LIMIT_S = 20.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    root = testing.workspace(tmp_path / "work", child_app.app)
    with perenne.open(root, child_app.app) as opened:
        yield opened


class Worker:
    """A worker process that stays, and what its handlers tell."""

    def __init__(self, engine: Engine, told: Path, grace_s: float) -> None:
        command = [sys.executable, str(Path(child_app.__file__)), str(engine.workspace.root), "1", str(grace_s)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._told = told
        self.hear("ready")

    def hear(self, word: str) -> None:
        """Return once the worker says so."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"

    def child(self) -> int:
        """The process of the handler, once it is at work."""
        deadline = time.monotonic() + LIMIT_S
        while not self._told.exists() or not self._told.read_text().endswith("\n"):
            assert time.monotonic() < deadline
            time.sleep(0.002)  # reason: another process is observed from outside
        return int(self._told.read_text().split()[0])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "told"


def started(engine: Engine, told: Path, what: str, grace_s: float) -> tuple[Worker, str]:
    worker = Worker(engine, told, grace_s)
    job_id = engine.submit(child_app.PLAIN, {"what": what, "path": str(told)}).job_id
    worker.child()
    return worker, job_id


def assert_suspended(engine: Engine, job_id: str, child: int) -> None:
    """E-R6: nothing is recorded as cancelled or failed because a worker was stopped."""
    job = engine.job(job_id)
    assert (job.state, job.reason, job.spent) == (S.QUEUED, "suspended", 0)
    assert not Path(f"/proc/{child}").exists()
    assert list(engine.workspace.children_folder.iterdir()) == []


def test_a_signal_ends_a_child_at_its_next_boundary(engine: Engine, told: Path) -> None:
    """SIGTERM drains: the handler is unwound at its boundary, and its job goes back unspent."""
    worker, job_id = started(engine, told, "go_on", grace_s=600)
    with contextlib.closing(worker):
        child = worker.child()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(LIMIT_S) == 0
        assert_suspended(engine, job_id, child)


@pytest.mark.parametrize("what", ["stick", "stick_natively", "block_signals"])
def test_a_second_signal_ends_a_child_that_reaches_none(engine: Engine, told: Path, what: str) -> None:
    """The second SIGTERM stops hard: the child is ended, the worker leaves in order, and the job goes back unspent."""
    worker, job_id = started(engine, told, what, grace_s=600)
    with contextlib.closing(worker):
        child = worker.child()
        for _ in range(2):
            worker.process.send_signal(signal.SIGTERM)
            worker.hear("told")
        assert worker.process.wait(LIMIT_S) == 0
        assert_suspended(engine, job_id, child)


def test_the_grace_time_ends_a_child_that_reaches_none(engine: Engine, told: Path) -> None:
    """One SIGTERM and the grace time do the same."""
    worker, job_id = started(engine, told, "stick", grace_s=0.2)
    with contextlib.closing(worker):
        child = worker.child()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(LIMIT_S) == 0
        assert_suspended(engine, job_id, child)


def test_a_stopped_child_is_waited_for(engine: Engine, told: Path) -> None:
    """SIGSTOP to a child is not its end: nobody takes its job, and a pause is met once it goes on."""
    worker, job_id = started(engine, told, "go_on", grace_s=600)
    with contextlib.closing(worker):
        child = worker.child()
        subprocess.run(["/bin/kill", "-STOP", str(child)], check=True)
        engine.pause(job_id)
        assert engine.wait(job_id, 0.1).state is S.RUNNING
        subprocess.run(["/bin/kill", "-CONT", str(child)], check=True)
        deadline = time.monotonic() + LIMIT_S
        while engine.job(job_id).state is S.RUNNING:
            assert time.monotonic() < deadline
            time.sleep(0.002)  # reason: another process is observed from outside
        assert (engine.job(job_id).state, engine.job(job_id).spent) == (S.PAUSED, 0)
