"""A worker in this process: its slots, its sleep, its drain, and what becomes of it when something fails."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne import Backoff, Context, JobState, Kind
from perenne.errors import DiskLow, InvalidInput, NotAllowed, StoreFailed
from perenne.runtime import worker as workers
from perenne.runtime.wake import Bell
from perenne.store.ledger import Ledger
from perenne.store.reader import Reader

Trial = Any
MakeKind = Callable[..., Kind]
S = JobState
LIMIT_S = 20.0


def slot_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(("slot-", "teller"))]


def pipes(trial: Trial) -> list[Path]:
    return list((trial.root / ".perenne" / "wake").iterdir())


def until_drained(context: Context, started: threading.Event) -> None:
    """A handler that goes on until it is ended at a boundary."""
    started.set()
    while True:
        context.boundary()
        threading.Event().wait(0.002)


class Turns:
    """Counts the turns of a worker's loop, by its sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = Bell.wait

        def wait(bell: Bell, *values: Any, **named: Any) -> Any:
            self.count += 1
            return real(bell, *values, **named)

        monkeypatch.setattr(Bell, "wait", wait)


def test_slots_run_at_the_same_time(trial: Trial, make_kind: MakeKind) -> None:
    """Four slots hold four handlers at once: each waits for the three others."""
    together = threading.Barrier(4, timeout=LIMIT_S)
    with trial.open(kind := make_kind(lambda context, input: together.wait())) as engine:
        for _ in range(8):
            engine.submit(kind, None)
        report = engine.work(slots=4)
        assert engine.counts() == {S.COMPLETED: 8}
    assert report.ended == 8


def test_no_more_than_the_slots_run(trial: Trial, make_kind: MakeKind) -> None:
    """Two slots never hold three handlers, however many jobs wait and however quick they are."""
    lock, inside, most = threading.Lock(), [0], [0]

    def handler(context: Context, input: object) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        threading.Event().wait(0.001)
        with lock:
            inside[0] -= 1

    with trial.open(kind := make_kind(handler)) as engine:
        for _ in range(100):
            engine.submit(kind, None)
        engine.work(slots=2)
        assert engine.counts() == {S.COMPLETED: 100}
    assert most[0] == 2


def test_a_worker_needs_its_lock(trial: Trial, make_kind: MakeKind) -> None:
    """An engine that was opened to submit makes no worker, and wrong numbers of slots are refused by value."""
    engine = trial.open(kind := make_kind(lambda context, input: None), access="write")
    with pytest.raises(NotAllowed, match="access='work'"):
        engine.worker()
    with trial.open(kind) as engine:
        for slots in (0, -1, 1025):
            with pytest.raises(InvalidInput, match=f"slots: {slots}, the limit is 1 to 1024"):
                engine.worker(slots=slots)


def test_a_worker_that_ended_leaves_nothing(trial: Trial, make_kind: MakeKind) -> None:
    """No thread, pipe or descriptor is left of a worker that ended, nor of one that never ran."""
    with trial.open(kind := make_kind(lambda context, input: None)) as engine:
        engine.work()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            engine.submit(kind, None)
            engine.worker(slots=3)
            assert engine.work(slots=2).ended == 1
        assert slot_threads() == []
        assert pipes(trial) == []
        deadline = time.monotonic() + 10.0
        while len(os.listdir("/proc/self/fd")) > before:
            assert time.monotonic() < deadline
            time.sleep(0.01)  # reason: the snapshot is written meanwhile, and rings no bell


def test_a_late_stop_touches_nothing(trial: Trial, make_kind: MakeKind) -> None:
    """`stop` before the run ends it at once; after the end it writes into nobody's descriptor."""
    with trial.open(kind := make_kind(lambda context, input: None)) as engine:
        job_id = engine.submit(kind, None).job_id
        worker = engine.worker()
        worker.stop()
        assert worker.run(stay=True).drained
        assert engine.job(job_id).state is S.QUEUED
        opened = [os.pipe() for _ in range(8)]  # one of them has the number that the bell had
        worker.stop()
        readable, _, _ = select.select([pipe[0] for pipe in opened], [], [], 0)
        for pipe in opened:
            os.close(pipe[0])
            os.close(pipe[1])
    assert not readable


def test_a_drain_gives_back_unspent(trial: Trial, make_kind: MakeKind, in_thread: Any) -> None:
    """A stopped worker lets its handlers reach a boundary; their jobs are QUEUED, unspent, and not cancelled."""
    started = threading.Event()
    with trial.open(kind := make_kind(lambda context, input: until_drained(context, started))) as engine:
        jobs = [engine.submit(kind, None).job_id for _ in range(2)]
        worker = engine.worker(slots=1)
        running = in_thread(lambda: worker.run(stay=True))
        assert started.wait(LIMIT_S)
        worker.stop()
        assert running.result().drained
        for job_id in jobs:
            job = engine.job(job_id)
            assert (job.state, job.spent, job.failures, job.interruptions) == (S.QUEUED, 0, 0, 0)
        verbs = [line.verb for line in engine.history(job_id=jobs[0])]
        assert verbs == ["submit", "claim", "suspend"]


def test_a_due_job_waits_quietly_for_a_slot(
    trial: Trial, make_kind: MakeKind, in_thread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While every slot is busy and a retry is due, the worker sleeps; it does not turn round and round."""
    turns, started, go_on = Turns(monkeypatch), threading.Event(), threading.Event()

    def handler(context: Context, input: object) -> None:
        if input == "fail" and context.attempt == 1:
            raise ValueError("again")
        if input == "hold":
            started.set()
            assert go_on.wait(LIMIT_S)

    with trial.open(kind := make_kind(handler, backoff=Backoff(1.0, 1.0))) as engine:
        engine.submit(kind, "fail")
        engine.work()
        trial.clock.advance(10)
        engine.submit(kind, "hold", priority=1000)
        running = in_thread(lambda: engine.worker(slots=1).run(stay=False))
        assert started.wait(LIMIT_S)
        before = turns.count
        assert_quiet(turns, before)
        go_on.set()
        running.result()
        assert engine.counts() == {S.COMPLETED: 2}


@pytest.mark.parametrize("control", ["workspace", "queue"])
def test_a_due_job_that_is_paused_is_waited_for_quietly(
    trial: Trial, make_kind: MakeKind, in_thread: Any, monkeypatch: pytest.MonkeyPatch, control: str
) -> None:
    """A retry that became due while its queue or the workspace is paused costs no turn; resume wakes the worker."""
    turns = Turns(monkeypatch)

    def handler(context: Context, input: object) -> None:
        if context.attempt == 1:
            raise ValueError("again")

    queue = None if control == "workspace" else "default"
    with trial.open(kind := make_kind(handler, backoff=Backoff(1.0, 1.0))) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        engine.pause(queue=queue)
        trial.clock.advance(10)
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        wait_for_sleep(turns)
        assert_quiet(turns, turns.count)
        engine.resume(queue=queue)
        assert engine.wait(job_id, LIMIT_S).state is S.COMPLETED
        worker.stop()
        running.result()


def wait_for_sleep(turns: Turns) -> None:
    """Until the worker has begun to turn, then until it seems to rest."""
    deadline = time.monotonic() + LIMIT_S
    while turns.count == 0:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    threading.Event().wait(0.2)


def assert_quiet(turns: Turns, before: int, watched_s: float = 0.5) -> None:
    # What must not happen gives no event; half a second would show hundreds of turns.
    threading.Event().wait(watched_s)
    assert turns.count - before <= 2


def test_a_low_disk_is_waited_for(
    trial: Trial, make_kind: MakeKind, in_thread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-W6: below the floor nothing is claimed and one message says why; work resumes by itself when there is room."""
    low: list[DiskLow] = [DiskLow("disk: 3 bytes are free, the floor is 4")]
    real = Ledger.refusal
    monkeypatch.setattr(Ledger, "refusal", lambda ledger, growth: low[0] if low else real(ledger, growth))
    monkeypatch.setattr(
        "perenne.store.sqlite.driver.SQLiteDriver.refusal", lambda self, growth: low[0] if low else None
    )
    monkeypatch.setattr(workers, "PATIENCE_S", 0.05)
    turns = Turns(monkeypatch)
    kind = make_kind(lambda context, input: None)
    refused, low[:] = list(low), []
    with trial.open(kind, real_time=True) as engine:
        job_id = engine.submit(kind, None).job_id
        low[:] = refused
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        wait_for_sleep(turns)
        before = turns.count
        threading.Event().wait(0.5)
        assert turns.count - before <= 20
        assert engine.job(job_id).state is S.QUEUED
        low.clear()
        assert engine.wait(job_id, LIMIT_S).state is S.COMPLETED
        worker.stop()
        running.result()
    assert [line["error"] for line in trial.log("engine")] == [str(refused[0])]


def test_a_fault_in_the_loop_ends_the_worker(
    trial: Trial, make_kind: MakeKind, in_thread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that fails under the loop is raised; handlers are unwound, no thread is left, the next worker goes on."""
    started, broken = threading.Event(), threading.Event()
    real = Reader.asked

    def asked(reader: Reader) -> Any:
        if broken.is_set():
            raise StoreFailed("it is damaged")
        return real(reader)

    monkeypatch.setattr(Reader, "asked", asked)
    with trial.open(kind := make_kind(lambda context, input: until_drained(context, started))) as engine:
        job_id = engine.submit(kind, None).job_id
        worker = engine.worker(slots=2)
        running = in_thread(lambda: worker.run(stay=True))
        assert started.wait(LIMIT_S)
        broken.set()
        engine.submit(kind, None)
        with pytest.raises(StoreFailed, match="it is damaged"):
            running.result()
        assert slot_threads() == []
        assert pipes(trial) == []
    broken.clear()
    done = make_kind(lambda context, input: "done")
    with trial.open(done) as engine:
        engine.work()
        assert engine.job(job_id).state is S.COMPLETED
        assert engine.counts() == {S.COMPLETED: 2}


def test_a_retry_runs_in_its_time(trial: Trial, make_kind: MakeKind, in_thread: Any) -> None:
    """A worker that stays wakes by itself when a retry is due."""

    def handler(context: Context, input: object) -> int:
        if context.attempt < 3:
            raise ValueError("again")
        return context.attempt

    kind = make_kind(handler, backoff=Backoff(0.05, 0.05))
    with trial.open(kind, real_time=True) as engine:
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        job = engine.wait(engine.submit(kind, None).job_id, LIMIT_S)
        worker.stop()
        running.result()
    assert (job.state, job.result) == (S.COMPLETED, b"3")


def test_the_active_limit_is_kept_by_the_clock(trial: Trial, make_kind: MakeKind) -> None:
    """A handler that reaches its boundary after its active time ends BLOCKED; the worker wakes for it by itself."""
    started = threading.Event()
    kind = make_kind(lambda context, input: until_drained(context, started), active_limit_s=0.1)
    with trial.open(kind, real_time=True) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.reason, job.spent) == (S.BLOCKED, "active_time_limit", 1)
    assert job.active_ms >= 100


def test_jobs_of_other_kinds_are_left_alone(trial: Trial, make_kind: MakeKind) -> None:
    """A worker claims only kinds and versions that it knows."""
    old = make_kind(lambda context, input: "old")
    new = Kind("trial.work", 2, lambda context, input: "new", Any)
    with trial.open(old) as engine:
        job_id = engine.submit(old, None).job_id
    with trial.open(new) as engine:
        assert engine.work().ended == 0
        assert engine.job(job_id).state is S.QUEUED
    with trial.open(old, new) as engine:
        engine.work()
        assert engine.job(job_id).result == b'"old"'
