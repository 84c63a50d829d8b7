"""A worker in a process of its own: woken, steered and ended from outside; asleep while there is nothing to do."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import perenne
from perenne import Engine, JobState, testing

PROGRAM = Path(__file__).with_name("one_worker.py")
LIMIT_S = 20.0
S = JobState


@pytest.fixture(scope="module")
def steered() -> ModuleType:
    spec = importlib.util.spec_from_file_location("one_worker", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class WorkerProcess:
    """A worker that says what happens; every wait has a limit."""

    def __init__(self, root: Path, slots: int, grace_s: float) -> None:
        command = [sys.executable, str(PROGRAM), str(root), str(slots), str(grace_s)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._received = b""
        self.pid = int(self.hear("ready"))

    def hear(self, word: str, limit_s: float = LIMIT_S) -> str:
        """The rest of the next line that begins with the word; lines before it are passed over."""
        deadline = time.monotonic() + limit_s
        while True:
            line = self._line(deadline, word)
            first, _, rest = line.partition(" ")
            if first == word:
                return rest

    def _line(self, deadline: float, word: str) -> str:
        out = self.process.stdout
        assert out is not None
        while b"\n" not in self._received:
            readable, _, _ = select.select([out], [], [], max(deadline - time.monotonic(), 0))
            assert readable, f"it did not say {word!r} in time"
            piece = os.read(out.fileno(), 4096)
            assert piece, f"it ended without saying {word!r}"
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def end(self, limit_s: float = LIMIT_S) -> int:
        return self.process.wait(limit_s)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end_by_signals(self) -> int:
        """Signal until it ends: two signals at once may be delivered as one."""
        for _ in range(100):
            self.signal()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.end(0.2)
        raise AssertionError("a hundred signals did not end it")

    def tools(self) -> list[str]:
        """Command lines of the processes below it."""
        found = subprocess.run(["ps", "-eo", "ppid,pid,args"], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in found.splitlines()[1:]]
        below, level = [], {str(self.pid)}
        while level:
            children = [row for row in rows if row[0] in level]
            below += [row[2] for row in children]
            level = {row[1] for row in children}
        return below

    def switches(self) -> int:
        """How often any of its threads gave up its processor by itself: once a sleep."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            total += int(fields["voluntary_ctxt_switches"]) + int(fields["nonvoluntary_ctxt_switches"])
        return total


@pytest.fixture
def engine(tmp_path: Path, steered: ModuleType) -> Iterator[Engine]:
    with perenne.open(testing.workspace(tmp_path / "work", steered.app), steered.app) as opened:
        yield opened


@pytest.fixture
def start(engine: Engine) -> Iterator[Any]:
    """`start(slots=1, grace_s=20.0)`: a worker process that is killed after the test."""
    started: list[WorkerProcess] = []

    def begin(slots: int = 1, grace_s: float = 20.0) -> WorkerProcess:
        started.append(WorkerProcess(engine.workspace.root, slots, grace_s))
        return started[-1]

    yield begin
    for worker in started:
        worker.process.kill()
        worker.process.wait()
        assert worker.process.stdout is not None
        worker.process.stdout.close()


def asleep(worker: WorkerProcess) -> None:
    """Until the worker has stopped giving up its processor."""
    deadline = time.monotonic() + LIMIT_S
    before = -1
    while (now := worker.switches()) != before:
        assert time.monotonic() < deadline, "the worker does not come to rest"
        before = now
        threading.Event().wait(0.3)


def test_a_submit_wakes_a_sleeping_worker(engine: Engine, start: Any) -> None:
    """E-X4: a submit from another process is run at once by a worker that slept; many in a row are all heard."""
    worker = start()
    asleep(worker)
    began_s = time.monotonic()
    job = engine.wait(engine.submit("quick", "x").job_id, LIMIT_S)
    assert job.state is S.COMPLETED
    assert time.monotonic() - began_s < 2.0
    jobs = [engine.submit("quick", str(number)).job_id for number in range(50)]
    assert [engine.wait(job_id, LIMIT_S).state for job_id in jobs] == [S.COMPLETED] * 50


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_an_idle_worker_sleeps(start: Any) -> None:
    """A worker with nothing to do is not scheduled once in a second: it waits, and asks nobody."""
    worker = start(slots=4)
    asleep(worker)
    before = worker.switches()
    threading.Event().wait(1.0)
    assert worker.switches() == before


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_worker_with_a_busy_slot_sleeps_too(engine: Engine, start: Any) -> None:
    """While its slot is held by a handler that waits, and others are queued, the worker asks nobody either."""
    worker = start()
    for _ in range(3):
        engine.submit("stick", "x")
    worker.hear("started")
    asleep(worker)
    before = worker.switches()
    threading.Event().wait(1.0)
    assert worker.switches() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_suspends(engine: Engine, start: Any, number: int) -> None:
    """E-R6: SIGTERM and SIGINT end a worker at the next boundary; its job is queued again, unspent, not cancelled."""
    worker = start()
    job_id = engine.submit("go_on", "/nowhere").job_id
    assert worker.hear("started") == job_id
    worker.signal(number)
    assert worker.hear("report") == "1 True"
    assert worker.end() == 0
    job = engine.job(job_id)
    assert (job.state, job.spent, job.interruptions) == (S.QUEUED, 0, 0)
    assert [attempt.outcome for attempt in engine.attempts(job_id)] == ["suspended"]


def test_a_signal_lets_a_tool_end_within_the_grace_time(engine: Engine, start: Any) -> None:
    """After one signal the tool goes on for the grace time, then it is stopped, and its job is queued unspent."""
    worker = start(grace_s=0.3)
    job_id = engine.submit("tool", "x").job_id
    worker.hear("started")
    worker.signal()
    assert worker.end() == 0
    job = engine.job(job_id)
    assert (job.state, job.spent, job.failures) == (S.QUEUED, 0, 0)


def test_a_second_signal_stops_the_tool(engine: Engine, start: Any) -> None:
    """The second SIGTERM does not wait for the grace time: the tool is gone, its job is queued unspent."""
    worker = start(grace_s=600)
    job_id = engine.submit("tool", "x").job_id
    worker.hear("started")
    deadline = time.monotonic() + LIMIT_S
    while not any("/bin/sleep 60" in tool for tool in worker.tools()):
        assert time.monotonic() < deadline
    assert worker.end_by_signals() == 0
    assert engine.job(job_id).state is S.QUEUED
    assert engine.job(job_id).spent == 0


def test_a_handler_that_goes_on_ends_with_its_worker(engine: Engine, start: Any) -> None:
    """A worker whose handler meets no boundary ends itself with code 70; the next one finds the job interrupted."""
    worker = start(grace_s=600)
    job_id = engine.submit("stick", "x").job_id
    worker.hear("started")
    assert worker.end_by_signals() == 70
    assert engine.job(job_id).state is S.RUNNING
    engine.pause()
    start()
    deadline = time.monotonic() + LIMIT_S
    while engine.job(job_id).state is S.RUNNING:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    job = engine.job(job_id)
    assert (job.state, job.spent, job.interruptions) == (S.QUEUED, 1, 1)


def test_a_runaway_takes_its_worker_along(engine: Engine, start: Any, tmp_path: Path) -> None:
    """E-F5: past its limit and the grace time, the worker suspends the others and exits 70; recovery follows."""
    worker = start(slots=2, grace_s=0.5)
    runaway = engine.submit("overstay", "x").job_id
    other = engine.submit("go_on", str(tmp_path / "gate")).job_id
    assert worker.end() == 70
    assert (engine.job(other).state, engine.job(other).spent) == (S.QUEUED, 0)
    assert engine.job(runaway).state is S.RUNNING
    engine.pause()
    start()
    deadline = time.monotonic() + LIMIT_S
    while engine.job(runaway).state is S.RUNNING:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    assert (engine.job(runaway).state, engine.job(runaway).interruptions) == (S.QUEUED, 1)


def test_a_stop_ends_the_worker_and_starts_none(engine: Engine, start: Any) -> None:
    """`stop` drains the worker and lets the next one end at once; `resume` starts nobody."""
    worker = start()
    job_id = engine.submit("go_on", "/nowhere").job_id
    worker.hear("started")
    engine.stop()
    assert worker.end() == 0
    assert (engine.job(job_id).state, engine.job(job_id).spent) == (S.QUEUED, 0)
    assert start().end() == 0
    assert engine.job(job_id).state is S.QUEUED
    engine.resume()
    assert engine.job(job_id).state is S.QUEUED


def test_a_pause_that_is_taken_back_is_forgotten(engine: Engine, start: Any, tmp_path: Path) -> None:
    """Pause, then resume: a paused job stands PAUSED, unspent, and runs to its end when it is let go on."""
    worker = start()
    job_id = engine.submit("go_on", str(tmp_path / "gate")).job_id
    worker.hear("started")
    engine.pause(job_id)
    deadline = time.monotonic() + LIMIT_S
    while engine.job(job_id).state is S.RUNNING:
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)
    assert (engine.job(job_id).state, engine.job(job_id).spent) == (S.PAUSED, 0)
    (tmp_path / "gate").touch()
    engine.resume(job_id)
    job = engine.wait(job_id, LIMIT_S)
    assert (job.state, job.spent, job.number) == (S.COMPLETED, 1, 2)


def test_a_cancel_reaches_a_tool(engine: Engine, start: Any) -> None:
    """E-O4: a cancel from another process stops the running tool at once; the job is CANCELLED, its slot free."""
    worker = start()
    job_id = engine.submit("tool", "x").job_id
    worker.hear("started")
    began_s = time.monotonic()
    engine.cancel(job_id)
    job = engine.wait(job_id, LIMIT_S)
    assert time.monotonic() - began_s < 2.0
    assert job.state is S.CANCELLED
    assert worker.hear("ended") == f"{job_id} CANCELLED"
    assert engine.wait(engine.submit("quick", "x").job_id, LIMIT_S).state is S.COMPLETED


def test_whoever_waits_elsewhere_is_woken_by_the_end(engine: Engine, start: Any, tmp_path: Path) -> None:
    """`wait` in another process returns at the end of the job, and at its time when the job has not ended."""
    worker = start()
    job_id = engine.submit("go_on", str(tmp_path / "gate")).job_id
    worker.hear("started")
    assert engine.wait(job_id, 0.05).state is S.RUNNING
    assert engine.wait(job_id, 0).state is S.RUNNING
    found: list[JobState] = []
    waiter = threading.Thread(target=lambda: found.append(engine.wait(job_id).state), daemon=True)
    waiter.start()
    (tmp_path / "gate").touch()
    waiter.join(LIMIT_S)
    assert found == [S.COMPLETED]
    assert len(list(engine.workspace.wake_folder.iterdir())) == 1, "the worker's own pipe is left, and no other"
