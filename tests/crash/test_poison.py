"""Handlers that kill or hang: bounded, told to end, and never a reason to take a living worker for a dead one."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import ledger_file, poison_app, processes
from harness.poison_app import Task
from harness.processes import Victim

import perenne
from perenne.runtime import drain

pytestmark = pytest.mark.crash

SOON_S = 5.0


class Place:
    """A workspace of the poison application, and a pipe that tells when a handler began."""

    def __init__(self, folder: Path, *, one_worker: bool) -> None:
        self.root, self.log, self.one_worker = folder / "workspace", folder / "children.log", one_worker
        os.mkfifo(folder / "began")
        self._began = os.open(folder / "began", os.O_RDWR | os.O_NONBLOCK)
        self.in_child(lambda: perenne.create(self.root, poison_app.app(one_worker=one_worker), name="p", specimen=True))

    def in_child(self, work: Any) -> None:
        assert processes.fork("errand", work, self.log).end() == 0, self.log.read_text()

    def submit(self, kind: str, *, deaf: bool = False, **wishes: Any) -> str:
        found = {job["id"] for job in self.jobs()}

        def submit() -> None:
            with perenne.open(self.root, poison_app.app(one_worker=self.one_worker)) as engine:
                engine.submit(f"poison.{kind}", Task(deaf), **wishes)

        self.in_child(submit)
        (new,) = {job["id"] for job in self.jobs()} - found
        return str(new)

    def worker(self, *, slots: int = 1, stay: bool = False) -> Victim:
        work = lambda: poison_app.work(self.root, one_worker=self.one_worker, slots=slots, stay=stay)  # noqa: E731
        return processes.fork("worker", work, self.log)

    def busy_worker(self, **wishes: Any) -> Victim:
        """A worker of which a handler has begun."""
        worker = self.worker(**wishes)
        self.wait_for_begin()
        return worker

    def wait_for_begin(self) -> None:
        assert select.select([self._began], [], [], 20)[0], self.log.read_text()
        os.read(self._began, 1)

    def jobs(self) -> list[dict[str, Any]]:
        return ledger_file.read(self.root / ".perenne" / "ledger.sqlite").job

    def job(self, id: str) -> dict[str, Any]:
        return next(job for job in self.jobs() if job["id"] == id)

    def attempts(self, id: str) -> list[tuple[Any, ...]]:
        rows = ledger_file.read(self.root / ".perenne" / "ledger.sqlite")
        return [(row["outcome"], row["spent"]) for row in rows.of("attempt", self.job(id))]

    def close(self) -> None:
        os.close(self._began)


@pytest.fixture(params=[True, False], ids=["one worker", "many workers"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, one_worker=request.param)
    yield place
    place.close()


def tell_to_end(worker: Victim, *, times: int) -> None:
    """SIGTERM, so many times."""
    for _ in range(times):
        worker.signal(signal.SIGTERM)
        worker.is_over(within_s=0.2)  # two signals at once would be one


@pytest.mark.parametrize("limit", [1, 3])
def test_handler_that_kills_its_process_is_bounded(place: Place, limit: int) -> None:
    """It kills as many workers as it has attempts, then it is DEAD, and the job behind it is done."""
    poison, behind = place.submit("kill", max_attempts=limit, priority=5), place.submit("end")
    deaths = 0
    while (code := place.worker().end()) != 0:
        assert code == -signal.SIGKILL, place.log.read_text()
        deaths += 1
    assert deaths == limit
    found = place.job(poison)
    assert (found["state"], found["reason"], found["number"]) == ("DEAD", "attempts_exhausted", limit)
    assert place.attempts(poison) == [("interrupted", 1)] * limit
    assert place.job(behind)["state"] == "COMPLETED"


@pytest.mark.parametrize("kind", ["last", "hide"])
def test_sigterm_suspends(place: Place, kind: str) -> None:
    """The job of a worker told to end goes back to the queue unspent, and nothing is cancelled or failed."""
    job = place.submit(kind)
    worker = place.busy_worker(stay=True)
    tell_to_end(worker, times=2 if kind == "hide" else 1)  # the first one lets a tool end
    assert worker.end(SOON_S) == 0, place.log.read_text()
    found = place.job(job)
    assert (found["state"], found["reason"], found["spent"]) == ("QUEUED", "suspended", 0)
    assert place.attempts(job) == [("suspended", 0)]
    assert (found["failures"], found["interruptions"], found["cancel_asked"]) == (0, 0, 0)
    assert processes.survivors(SOON_S) == []


def test_second_sigterm_ends_a_deaf_tool(place: Place) -> None:
    """A tool that ignores SIGTERM is killed with its children at the second signal, long before the time of grace."""
    job = place.submit("hide", deaf=True)
    worker = place.busy_worker(stay=True)
    began_s = time.monotonic()
    tell_to_end(worker, times=2)
    assert worker.end(SOON_S) == 0, place.log.read_text()
    assert time.monotonic() - began_s < drain.GRACE_S
    assert place.job(job)["state"] == "QUEUED"
    assert processes.survivors(SOON_S) == []


def test_second_sigterm_ends_a_deaf_handler(place: Place) -> None:
    """A handler that passes no boundary ends with its process; the next worker finds it interrupted, once."""
    job = place.submit("last", deaf=True, max_attempts=1)
    worker = place.busy_worker(stay=True)
    tell_to_end(worker, times=2)
    assert worker.end(drain.LAST_GRACE_S + SOON_S) == drain.EXIT_CODE
    assert place.job(job)["state"] == "RUNNING"
    assert place.worker().end() == 0
    assert (place.job(job)["state"], place.attempts(job)) == ("DEAD", [("interrupted", 1)])


def test_stopped_worker_is_not_dead(place: Place) -> None:
    """A worker that stands still keeps its job: a second one is refused by name, or works beside it; none takes it."""
    job, other = place.submit("last"), place.submit("end")
    worker = place.busy_worker(stay=True)
    worker.signal(signal.SIGSTOP)
    assert worker.is_stopped()
    second = place.worker()
    code = second.end(SOON_S)
    if place.one_worker:
        assert code == 1
        assert f"pid {worker.pid}" in place.log.read_text()
    else:
        assert (code, place.job(other)["state"]) == (0, "COMPLETED")
    assert (place.job(job)["state"], place.job(job)["number"]) == ("RUNNING", 1)
    worker.signal(signal.SIGCONT)
    worker.signal(signal.SIGTERM)
    assert worker.end(SOON_S) == 0
    assert place.attempts(job) == [("suspended", 0)]


@pytest.mark.parametrize("deaf", [False, True])
def test_tool_dies_with_its_worker(place: Place, deaf: bool) -> None:
    """When a worker is killed while its tool runs, the tool and all that it started are gone at once."""
    job = place.submit("hide", deaf=deaf)
    worker = place.busy_worker()
    while not any("sleep 60" in line for line in processes.descendants()):
        select.select([], [], [], 0.005)
    assert worker.kill()
    assert processes.survivors(SOON_S) == []
    assert place.job(job)["state"] == "RUNNING"
