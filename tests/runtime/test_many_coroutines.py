"""A worker process with many awaiting coroutines: told to end, killed, and with one among them that holds the loop."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the app is a program too, started by its path

import loop_app
import pytest

import perenne
from perenne import Engine, Job, JobState, testing, upkeep

S = JobState
LIMIT_S = 60.0
MANY = 150


class Hall:
    """A workspace, the folder in which its coroutines tell what they do, and worker processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, testing.workspace(folder / "work", loop_app.app)

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, str(loop_app.__file__), str(self.root)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.communicate()

    def submit(self, engine: Engine, count: int, kind: str = "wait") -> list[str]:
        batch = [engine.request(kind, {"folder": str(self.folder)}) for _ in range(count)]
        return [receipt.job_id for receipt in engine.submit_many(batch)]

    def told(self, name: str) -> list[str]:
        return loop_app.told(self.folder, name)

    def begun(self, number: int) -> set[str]:
        """The jobs whose attempt of this number has begun."""
        return {line.split()[0] for line in self.told("begun") if line.split()[1] == str(number)}

    def log(self, job_id: str) -> str:
        path = self.root / ".perenne" / "logs" / f"{job_id}.jsonl"
        return path.read_text() if path.exists() else ""

    def open_the_gate(self) -> None:
        (self.folder / "gate").touch()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)  # reason: another process is observed from outside, which gives no signal


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path)


@pytest.fixture
def engine(hall: Hall) -> Iterator[Engine]:
    with perenne.open(hall.root, loop_app.app) as opened:
        yield opened


def finished(hall: Hall, engine: Engine, ids: list[str]) -> list[Job]:
    """The jobs, every one of them completed, published once, and with a workspace that is well."""
    until(lambda: not engine.counts().keys() & {S.QUEUED, S.RUNNING})
    jobs = [engine.job(id) for id in ids]
    assert {(job.state, job.result) for job in jobs} == {(S.COMPLETED, b'"shelved"')}
    assert sorted(hall.told("shelf")) == sorted(ids)
    assert troubles(hall) == []
    return jobs


def troubles(hall: Hall) -> list[str]:
    return [f"{look.name}: {look.sentence}" for look in upkeep.doctor(hall.root, loop_app.app) if look.verdict != "ok"]


def test_a_signal_gives_all_coroutines_back_and_the_next_worker_ends_them(hall: Hall, engine: Engine) -> None:
    """E-R6: SIGTERM suspends every awaiting coroutine; none is cancelled, none has spent an attempt, each ends once."""
    with hall.worker() as first:
        ids = hall.submit(engine, MANY)
        until(lambda: hall.begun(1) == set(ids))
        first.send_signal(signal.SIGTERM)
        assert first.wait(LIMIT_S) == 0
    given_back = [engine.job(id) for id in ids]
    assert {(job.state, job.reason, job.spent) for job in given_back} == {(S.QUEUED, "suspended", 0)}
    assert troubles(hall) == []
    hall.open_the_gate()
    with hall.worker():
        jobs = finished(hall, engine, ids)
    assert {(job.number, job.spent, job.interruptions) for job in jobs} == {(2, 1, 0)}
    states = {line.to_state for id in ids for line in engine.history(job_id=id)}
    assert S.CANCELLED not in states


def test_all_coroutines_of_a_killed_worker_are_recovered(hall: Hall, engine: Engine) -> None:
    """After kill -9 every attempt is found interrupted and counted; the next worker ends each job once."""
    with hall.worker() as first:
        ids = hall.submit(engine, MANY)
        until(lambda: hall.begun(1) == set(ids))
        first.kill()
        first.wait(LIMIT_S)
    with hall.worker():
        until(lambda: hall.begun(2) == set(ids))
        hall.open_the_gate()
        jobs = finished(hall, engine, ids)
    assert {(job.number, job.interruptions) for job in jobs} == {(2, 1)}
    assert len(hall.told("begun")) == 2 * MANY


def test_coroutines_killed_while_they_publish_publish_once(hall: Hall, engine: Engine) -> None:
    """Killed in the midst of the ends: what is on the shelf is found there and not done again, the rest is done."""
    with hall.worker() as first:
        ids = hall.submit(engine, MANY)
        until(lambda: hall.begun(1) == set(ids))
        hall.open_the_gate()
        until(lambda: len(hall.told("shelf")) > 0)
        first.kill()
        first.wait(LIMIT_S)
    shelved = set(hall.told("shelf"))
    with hall.worker():
        jobs = finished(hall, engine, ids)
    assert {job.id for job in jobs if job.number == 2} >= set(ids) - shelved
    assert not shelved & hall.begun(2)


def test_one_of_a_thousand_holds_the_loop(hall: Hall, engine: Engine) -> None:
    """E-F5: the others wait, log and doctor name who holds them, and let go all of them end in the same worker."""
    with hall.worker() as worker:
        ids = hall.submit(engine, 1000)
        until(lambda: hall.begun(1) == set(ids))
        (holding,) = hall.submit(engine, 1, "hold")
        until(lambda: "hold_the_loop" in hall.log(holding))
        hall.open_the_gate()
        assert hall.told("shelf") == []
        (told,) = troubles(hall)
        assert f"process {worker.pid}: hold@1, job {holding}, attempt 1 holds its loop for " in told
        (hall.folder / "let go").touch()
        jobs = finished(hall, engine, ids)
        assert engine.job(holding).result == b'"let go"'
    assert {(job.number, job.spent) for job in jobs} == {(1, 1)}


def test_a_worker_killed_while_its_loop_is_held_is_settled(hall: Hall, engine: Engine) -> None:
    """What the dead one said of its loop is said of nobody: the next worker ends its jobs, and the doctor is clean."""
    with hall.worker() as first:
        (holding,) = hall.submit(engine, 1, "hold")
        until(lambda: any(look.startswith("loops: ") for look in troubles(hall)))
        first.kill()
        first.wait(LIMIT_S)
    named = {look.partition(":")[0] for look in troubles(hall)}
    assert named >= {"owners", "running"}
    assert "loops" not in named
    (hall.folder / "let go").touch()
    with hall.worker():
        assert engine.wait(holding, LIMIT_S).result == b'"let go"'
        until(lambda: troubles(hall) == [])
        assert len(list(engine.workspace.owners_folder.iterdir())) == 1
