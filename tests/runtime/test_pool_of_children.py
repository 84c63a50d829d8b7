"""Children are started by one thread, kept warm, and replaced before anybody misses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import child_app
import pytest

import perenne
from perenne import Engine, JobState, Kind, testing
from perenne.errors import ChildFailed
from perenne.runtime import childprocess, children
from perenne.runtime.children import Children

S = JobState
LIMIT_S = 20.0
KIND = child_app.PLAIN


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    root = testing.workspace(tmp_path / "work", child_app.app)
    with perenne.open(root, child_app.app, access="work") as opened:
        yield opened


@pytest.fixture
def pool(engine: Engine) -> Iterator[Children]:
    made = Children(engine.workspace, "nobody", 2)
    yield made
    made.close()


@pytest.fixture
def staying(engine: Engine, in_thread: Any) -> Iterator[Engine]:
    """The engine, with a worker of two slots that stays until the test is over."""
    worker = engine.worker(slots=2)
    working = in_thread(lambda: worker.run(stay=True))
    yield engine
    worker.stop()
    working.result()


def pid_after(engine: Engine, what: str = "work", **fields: Any) -> int:
    """The process in which a job ran."""
    job = engine.wait(engine.submit(KIND, {"what": what, **fields}).job_id, LIMIT_S)
    assert job.state is S.COMPLETED, job.diagnostic
    return int(json.loads(job.result or b"")["pid"])


def lives(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + LIMIT_S
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.002)  # reason: another process is observed from outside
    return not lives(pid)


def test_a_child_outlives_the_thread_that_asked_for_it(pool: Children) -> None:
    """The signal of a parent's death belongs to a thread; the one that starts children lives as long as the pool."""
    lent: list[childprocess.ChildProcess] = []
    asking = threading.Thread(target=lambda: lent.append(pool.lend(KIND)))
    asking.start()
    asking.join(LIMIT_S)
    (child,) = lent
    child.link.send("nonsense")  # it is heard, so the child lives; and no request, so it ends, in its own words
    assert is_gone(child.pid)
    assert "exited with status 1" in child.end().sentence
    pool.lose()


def test_no_child_outlives_its_worker(engine: Engine, tmp_path: Path) -> None:
    """SIGKILL to a worker is the end of its children, also of one that holds the interpreter; idle ones, too."""
    path = tmp_path / "told"
    jobs = [engine.submit(KIND, {"what": what, "path": str(path)}).job_id for what in ("stick_natively", "go_on")]
    root, program = engine.workspace.root, Path(child_app.__file__)
    engine.close()
    with subprocess.Popen([sys.executable, str(program), str(root), "2", "20"], stdout=subprocess.PIPE) as worker:
        deadline = time.monotonic() + LIMIT_S
        while not path.exists() or len(path.read_text().splitlines()) < len(jobs):
            assert time.monotonic() < deadline
            time.sleep(0.002)  # reason: another process is observed from outside
        tasks = Path(f"/proc/{worker.pid}/task")
        below = [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
        assert set(map(int, path.read_text().split())) <= set(below)
        worker.kill()
    assert all(is_gone(pid) for pid in below)


def test_starting_one_is_not_on_the_path_of_the_next_job(staying: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash the next attempt finds a child that is there already: no start stands between them."""
    first = pid_after(staying)
    spare = pid_of_a_spare(staying, first)
    hold = threading.Event()
    spawn = childprocess._spawn
    monkeypatch.setattr(childprocess, "_spawn", lambda given: hold.wait(LIMIT_S) and spawn(given))
    crashed = staying.wait(staying.submit(KIND, {"what": "segfault"}).job_id, LIMIT_S)
    try:
        assert crashed.state is S.FAILED
        assert pid_after(staying) == spare
    finally:
        hold.set()


def pid_of_a_spare(engine: Engine, first: int) -> int:
    """The child that waits beside the first one."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        ready = [pid for pid in children_of_this_process() if pid != first and serves(engine, pid)]
        if ready:
            return ready[0]
        time.sleep(0.01)  # reason: another process is observed from outside
    raise AssertionError("no child waits")


def children_of_this_process() -> list[int]:
    tasks = Path("/proc/self/task")
    found = [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in found if b"perenne.runtime.child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def serves(engine: Engine, pid: int) -> bool:
    """Whether the idle child of that number is of the kind that is tried."""
    worker = engine._worker
    assert worker is not None
    line = worker._executor.attendants.children._idle.get(str(KIND), ())
    return any(one.done() and one.result().pid == pid for one in line)


def test_a_child_serves_so_many_attempts_and_no_more(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child is replaced after its last attempt, and leaves."""
    assert children.ATTEMPTS_MOST == 500
    monkeypatch.setattr(children, "ATTEMPTS_MOST", 3)
    jobs = [engine.submit(KIND, {"what": "work"}).job_id for _ in range(7)]
    engine.work()
    pids = [json.loads(engine.job(job).result or b"")["pid"] for job in jobs]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    assert all(is_gone(pid) for pid in pids)


def test_a_child_whose_memory_grows_is_replaced(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold what it held after its first attempt, twice, and some more; then another one serves."""
    monkeypatch.setattr(children, "GROWTH_BYTES", 64 << 20)
    monkeypatch.setattr(children, "GROWTH_FACTOR", 1)
    orders = ["work", "keep_some", "work", "keep_much", "work"]
    jobs = [engine.submit(KIND, {"what": what}).job_id for what in orders]
    engine.work()
    pids = [json.loads(engine.job(job).result or b"")["pid"] for job in jobs]
    assert pids[0] == pids[1] == pids[2] == pids[3] != pids[4]


def test_side_by_side_each_attempt_has_a_child_of_its_own(staying: Engine, tmp_path: Path) -> None:
    """Two slots run two children at once."""
    path = tmp_path / "told"
    jobs = [staying.submit(KIND, {"what": "go_on", "path": str(path)}).job_id for _ in range(2)]
    deadline = time.monotonic() + LIMIT_S
    while not path.exists() or len(path.read_text().splitlines()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.002)  # reason: another process is observed from outside
    assert len(set(path.read_text().split())) == 2
    for job in jobs:
        staying.cancel(job)


def test_no_more_children_are_kept_than_may_be_used(engine: Engine) -> None:
    """Children of kinds that have nothing to do make room for others: one a slot, and one ready for each kind."""
    kinds = [child_app.PLAIN, child_app.AGAIN, child_app.SMALL]
    pool = Children(engine.workspace, "nobody", 2)
    pool.warm(kinds)
    for kind in kinds * 2:
        lent = [pool.lend(kind) for _ in range(2)]
        for child in lent:
            pool.give_back(child, None)
        assert sum(map(len, pool._idle.values())) <= 2 + len(kinds)
    pool.close()


def test_a_child_that_cannot_be_started_fails_the_attempt(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process, no attempt: it failed with the reason."""

    def refuse(given: list[int]) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(childprocess, "_spawn", refuse)
    job_id = engine.submit(KIND, {"what": "work"}).job_id
    engine.work()
    job = engine.job(job_id)
    assert job.state is S.FAILED
    assert "could not be started: [Errno 11] Resource temporarily unavailable" in (job.diagnostic or "")


@pytest.mark.parametrize("name", ["_spawn", "started"])
def test_a_start_that_fails_leaves_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Neither a descriptor nor a process stays of a child whose start failed, early or late."""

    def refuse(given: Any) -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(childprocess, name, refuse)
    before = len(os.listdir("/proc/self/fd"))
    pool = Children(engine.workspace, "nobody", 1)
    with pytest.raises(ChildFailed, match="Too many open files"):
        pool.lend(KIND)
    pool.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert not children_of_this_process()


def test_a_kind_that_cannot_be_imported_there_fails_the_attempt(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the worker could import and the child cannot is told with the child's own traceback."""
    monkeypatch.setenv("PERENNE_TEST_BREAK_IMPORT", "1")
    job_id = engine.submit(KIND, {"what": "work"}).job_id
    engine.work()
    job = engine.job(job_id)
    assert job.state is S.FAILED
    assert "cannot import it" in (job.diagnostic or "")
    assert "RuntimeError: broken on purpose" in (job.diagnostic or "")


def test_what_a_dead_child_leaves_is_given_back(pool: Children) -> None:
    """Descriptors of a child are closed with it, however it ends."""
    before = len(os.listdir("/proc/self/fd"))
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        child = pool.lend(KIND)
        os.kill(child.pid, number)
        assert is_gone(child.pid)
        assert signal.Signals(number).name in child.end().sentence or number == signal.SIGTERM
        pool.lose()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_child_of_no_use_is_refused(pool: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not ready in time is ended, and whoever asked is told."""
    monkeypatch.setattr(childprocess, "READY_WITHIN_S", 0.0)
    with pytest.raises(ChildFailed, match="was not ready within 0 s"):
        pool.lend(KIND)


def test_closing_ends_every_child(engine: Engine) -> None:
    """After `close` no child is left, whether it was ready or still on its way."""
    pool = Children(engine.workspace, "nobody", 4)
    pool.warm([child_app.PLAIN, child_app.AGAIN])
    child = pool.lend(child_app.PLAIN)
    pool.give_back(child, None)
    pool.close()
    assert is_gone(child.pid)
    assert not children_of_this_process()


def test_two_kinds_do_not_share_a_child(pool: Children) -> None:
    """A child serves one kind for good."""

    def serial(kind: Kind) -> int:
        child = pool.lend(kind)
        pool.give_back(child, None)
        return child.pid

    assert serial(child_app.PLAIN) == serial(child_app.PLAIN)
    assert serial(child_app.AGAIN) != serial(child_app.PLAIN)


def test_a_status_that_was_taken_is_no_fault(engine: Engine) -> None:
    """Where the kernel reaps the worker's children, because SIGCHLD is ignored, a crash is still a failed attempt."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        jobs = [engine.submit(KIND, {"what": what}).job_id for what in ("segfault", "work")]
        engine.work()
    finally:
        signal.signal(signal.SIGCHLD, before)
    crashed, worked = map(engine.job, jobs)
    assert (crashed.state, worked.state) == (S.FAILED, S.COMPLETED)
    assert "something else in the worker took its status" in (crashed.diagnostic or "")


def test_a_child_that_stands_still_hears_the_newest_wish(staying: Engine, tmp_path: Path) -> None:
    """Its pipe holds some thousand wishes; whatever came after is told once it reads again."""
    path = tmp_path / "told"
    job_id = staying.submit(KIND, {"what": "go_on", "path": str(path)}).job_id
    deadline = time.monotonic() + LIMIT_S
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.002)  # reason: another process is observed from outside
    worker = staying._worker
    assert worker is not None
    (running,) = worker._slots.held.values()
    child = int(path.read_text())
    os.kill(child, signal.SIGSTOP)
    for _ in range(10_000):
        running.wishes.take_back("pause")  # nobody asked for one, but it is told
    running.wishes.ask("suspend")
    os.kill(child, signal.SIGCONT)
    while staying.job(job_id).number == 1 and staying.attempts(job_id)[0].outcome is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)  # reason: another process is observed from outside
    assert staying.attempts(job_id)[0].outcome == "suspended"
    staying.cancel(job_id)
