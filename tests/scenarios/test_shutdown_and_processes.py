"""Section 3.14: workers that are told to end, forks, handlers that never come back, and memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import scenario_tasks
from scenario_stage import Stage, staying, until

import perenne
from perenne import App, Context, Engine, Job, JobState, Kind
from perenne.errors import StoreFailed
from perenne.runtime import children

S = JobState
LIMIT_S = 20.0


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Engine]:
    """An engine of the tasks, open for work."""
    root = Stage(tmp_path / "tasks", scenario_tasks.app).root
    with perenne.open(root, scenario_tasks.app, access="work") as engine:
        yield engine


def test_c72_a_drain_is_bounded_and_ownership_ends_last(stage: Stage) -> None:
    """Thread: a shutdown hung on a network call for ever; and the heartbeat was stopped before the drain was over.

    Told to end twice, a worker whose handler never comes back ends within its grace, and nothing is recorded as
    cancelled. Until its process is over its job is nobody else's; then another worker has it at once.
    """
    with stage.open() as engine, stage.worker() as process:
        job = stage.submit(engine, "deaf", "")
        stage.until_runs(job)
        process.send_signal(signal.SIGTERM)
        with stage.open("work") as other:
            assert other.work().recovered == 0
            assert (engine.job(job).state, process.poll()) == (S.RUNNING, None)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) is not None
            assert other.work().recovered == 1
        assert engine.job(job).state is S.COMPLETED
        assert "cancel" not in {line.verb for line in engine.history(job_id=job)}


def forked(tasks: Engine, answers: list[str]) -> int:
    """Enqueue in a child that was forked with the engine open; what the child was told."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            scenario_tasks.note.enqueue("from the child")
            os.write(writing, b"stored")
        except StoreFailed as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        answers.append(said.read())
    return os.waitpid(child, 0)[1]


def test_c74_a_forked_child_is_told_and_a_spawned_one_is_served(tasks: Engine, tmp_path: Path) -> None:
    """Thread: a child that was forked with the database open crashed, or corrupted it.

    A task that is enqueued in a forked child is refused with the way out, though its engine looks open there; nothing
    is stored, and the parent goes on. A process that was started anew finds the workspace and stores its job.
    """
    answers: list[str] = []
    assert forked(tasks, answers) == 0
    assert "spawn, not fork" in answers[0]
    scenario_tasks.note.enqueue("from the parent")
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import scenario_tasks as s; "
    code = program + "s.note.enqueue('from a new process')"
    environment = {**os.environ, "PERENNE_WORKSPACE": str(tasks.workspace.root)}
    assert os.spawnve(os.P_WAIT, sys.executable, [sys.executable, "-c", code], environment) == 0
    tasks.work()
    results = sorted((job.result or b"").decode() for job in tasks.jobs())
    assert results == ['"from a new process"', '"from the parent"']
    assert multiprocessing.active_children() == []


def test_c75_a_time_limit_needs_no_free_slot(tasks: Engine, tmp_path: Path) -> None:
    """Thread: every thread of the pool hung, and none was left to enforce the time limit.

    The watch is no slot: with all slots held by handlers that never come back each attempt ends at its limit, by name,
    its process is gone, and the jobs behind it run.
    """
    hung = [scenario_tasks.hang.enqueue(str(tmp_path)).job_id for _ in range(2)]
    behind = [scenario_tasks.note.enqueue("a").job_id for _ in range(3)]
    tasks.work(slots=2)
    assert [tasks.job(id).state for id in behind] == [S.COMPLETED] * 3
    for id in hung:
        assert (tasks.job(id).state, tasks.job(id).number) == (S.FAILED, 1)
        assert "longer than 0.5 s" in (tasks.job(id).diagnostic or "")
    processes = [int(path.suffix[1:]) for path in tmp_path.glob("hung.*")]
    assert len(processes) == 2
    for pid in processes:
        until(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_c76_delayed_jobs_wait_in_the_store(stage: Stage) -> None:
    """Thread: the memory of workers grew with each delayed task, which they held until its time.

    Twenty thousand jobs for tomorrow are rows: an idle worker that was woken for them holds none of them, and is not a
    megabyte larger for each thousand.
    """
    with stage.open() as engine, stage.worker() as process:
        first = stage.submit(engine)
        assert engine.wait(first, LIMIT_S).state is S.COMPLETED
        before = resident_bytes(process.pid)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        for _ in range(20):
            engine.submit_many([engine.request("act", stage.plan(), not_before=tomorrow) for _ in range(1000)])
        last = stage.submit(engine)
        assert engine.wait(last, LIMIT_S).state is S.COMPLETED
        assert resident_bytes(process.pid) - before < 20 << 20
        assert engine.counts()[S.QUEUED] == 20_000
        assert stage.sql("select count(*) from attempt") == [[2]]


def test_c76_a_child_that_grew_is_replaced_between_two_jobs(tasks: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread: the same.

    A process of handlers whose memory grew beyond its bound serves no further job; no job is cut short for it.
    """
    monkeypatch.setattr(children, "GROWTH_BYTES", 32 << 20)
    monkeypatch.setattr(children, "GROWTH_FACTOR", 1)
    jobs = [scenario_tasks.leak.enqueue(size).job_id for size in (1 << 10, 1 << 10, 64 << 20, 1 << 10)]
    tasks.work()
    small, again, grown, fresh = [tasks.job(id).result for id in jobs]
    assert small == again == grown
    assert fresh != grown


def test_c77_a_hung_call_stalls_nothing_but_its_own_slot(tmp_path: Path) -> None:
    """Thread: the loop that asked for work hung on one call while the heartbeats went on; all looked healthy, and
    229,000 jobs waited.

    With a handler that hangs, a listener that hangs and a lookup that hangs, each in its own place, the loop goes on
    claiming: a hundred jobs that came later end, in the slots that are left.
    """
    go_on, hung = threading.Event(), threading.Semaphore(0)

    def hang(*_: object) -> None:
        hung.release()
        assert go_on.wait(60)

    def look(publication: perenne.Publication) -> perenne.Published:
        hang()
        return perenne.Published.absent()

    kinds = [
        Kind("quick", 1, lambda context, input: input, int),
        Kind("hang", 1, lambda context, input: hang(), int),
        Kind("looked", 1, lambda context, input: None, int, publications=("page",), lookup=look),
    ]
    app = App("hangs", kinds, queues={"default": 1000})
    root = Stage(tmp_path / "stage", app).root
    with perenne.open(root, app, access="work") as engine:
        told: list[str] = []

        def listen(job: Job) -> None:
            told.append(job.id)
            if len(told) == 1:
                hang()

        engine.on_end(listen)
        with staying(engine.worker(slots=3)):
            for kind in ("quick", "hang", "looked"):
                engine.submit(kind, 0)
            for _ in range(3):
                assert hung.acquire(timeout=LIMIT_S)
            begun = time.monotonic()
            later = [engine.submit("quick", number).job_id for number in range(100)]
            until(lambda: engine.counts()[S.COMPLETED] == 101, LIMIT_S)
            assert time.monotonic() - begun < LIMIT_S
            assert len(told) == 1
            go_on.set()
            for id in later:
                engine.wait(id, LIMIT_S)
        assert len(told) >= 101


def test_c77_rows_that_hang_stall_nobody(tmp_path: Path) -> None:
    """Thread: the same.

    An application's code that hangs in the transaction which ends its job keeps the lock for its limit and no longer;
    the jobs of the other slot end meanwhile.
    """
    go_on, hung = threading.Event(), threading.Event()

    def complete(context: Context, input: int) -> object:
        def also(tables: object) -> None:
            hung.set()
            assert go_on.wait(60)

        return context.complete(input, also=also)

    kinds = [Kind("hang", 1, complete, int, max_attempts=1), Kind("quick", 1, lambda context, input: input, int)]
    app = App("hangs", kinds, queues={"default": 1000})
    root = Stage(tmp_path / "stage", app).root
    with perenne.open(root, app, access="work") as engine, staying(engine.worker(slots=2)):
        slow = engine.submit("hang", 1).job_id
        assert hung.wait(LIMIT_S)
        later = [engine.submit("quick", number).job_id for number in range(50)]
        for id in later:
            assert engine.wait(id, LIMIT_S).state is S.COMPLETED
        assert engine.job(slow).state is S.RUNNING
        go_on.set()
        failed = engine.wait(slow, LIMIT_S)
        assert failed.state is S.FAILED
        assert "longer than 50 ms" in (failed.diagnostic or "")
