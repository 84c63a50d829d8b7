"""Section 3.8, SQLite: locks, long logs, interrupts and refusals (full disks have a file of their own)."""

from __future__ import annotations

import ast
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from scenario_stage import Stage, at, together, until

import perenne
from perenne import JobState
from perenne.errors import QueueFull, StoreBusy
from perenne.store.sqlite import checkpoints, pen

PACKAGE = Path(str(perenne.__file__)).parent
DEFERRED = re.compile(r"\s*begin(\s+deferred)?(\s+transaction)?\s*;?\s*", re.IGNORECASE)


def test_c43_workers_and_submitters_never_meet_a_locked_database(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread: with several workers, calls failed with `database is locked`.

    Four worker processes and eight submitting threads share one file, and no call of any of them fails; who finds the
    lock taken waits for it within its budget.
    """
    with stage.open() as engine:
        with stage.worker("slots=2"), stage.worker("slots=2"), stage.worker("slots=2"), stage.worker("slots=2"):
            answers = together(*[lambda: [stage.submit(engine) for _ in range(20)]] * 8)
            assert all(isinstance(answer, list) for answer in answers), answers
            until(lambda: engine.counts() == {JobState.COMPLETED: 160}, 60)
        assert stage.log("store_waits") == 0
        with stage.holding("begin immediate") as holder:
            met: list[str] = []

            def let_go(low: float, high: float) -> float:
                if not met:
                    met.append("busy")
                    holder.communicate(timeout=30)
                return low

            monkeypatch.setattr(pen.random, "uniform", let_go)
            stage.submit(engine)
        assert met == ["busy"]
    stage.assert_sound()


def test_c44_no_read_transaction_is_ever_upgraded(stage: Stage) -> None:
    """Thread: a transaction that read first and then wrote failed at once, whatever the busy timeout.

    What reads and then writes takes the write lock first, so nobody can write in between; and no statement of ours
    begins a deferred transaction, but on connections that only read.
    """
    with stage.open() as engine, stage.hand() as hand, stage.hand("other") as other:
        stage.submit(engine)
        other.driver._writer._busy_s = 0.1  # type: ignore[union-attr]

        def read_then_write(tx: object) -> None:
            hand.ledger._driver.read(lambda view: view.one("read_store"))
            with pytest.raises(StoreBusy):
                other.driver.write(lambda tx: tx.run("insert_queue", name="between", capacity=1))
            tx.run("insert_queue", name="mine", capacity=1)  # type: ignore[attr-defined]

        hand.driver.write(read_then_write)
        names = [queue.name for queue in engine.queues()]
    assert "mine" in names
    assert "between" not in names
    assert begins_deferred() == {
        "store/sqlite/reading.py: look",
        "store/sqlite/backup.py: copy",
        "store/sqlite/backup.py: looking",
        "apps/evidence/catalogue.py: reading",
        "apps/evidence/reference_store.py: look",
    }


def begins_deferred() -> set[str]:
    """Functions of the package in which a transaction begins that is not immediate or exclusive; queries that do."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            texts = [node.value for node in ast.walk(function) if isinstance(node, ast.Constant)]
            if any(isinstance(text, str) and DEFERRED.fullmatch(text) for text in texts):
                found.add(f"{file.relative_to(PACKAGE).as_posix()}: {function.name}")
    for file in PACKAGE.rglob("*.sql"):
        if re.search(r"^\s*begin\b", file.read_text(encoding="utf-8"), re.IGNORECASE | re.MULTILINE):
            found.add(file.relative_to(PACKAGE).as_posix())
    return found


def test_c44_the_upgrade_would_fail_at_once(stage: Stage) -> None:
    """Thread: as above; the danger is real.

    With SQLite's own busy timeout of ten seconds, the upgrade of a read that another writer overtook fails in no time.
    """
    with stage.open() as engine:
        connection = apsw.Connection(str(stage.workspace.ledger), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(10_000)
        connection.execute("begin; select count(*) from job").fetchall()
        stage.submit(engine)
        started = time.monotonic()
        with pytest.raises(apsw.BusyError):
            connection.execute("update store set paused = 1")
        assert time.monotonic() - started < 5
        connection.close(True)


def test_c45_a_permanent_reader_does_not_fill_the_disk(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread: write-ahead logs of 1.7, 5.4, 45 and 115 GB, for a reader that never ended kept them from being emptied.

    Above its limit the log takes no new job and the refusal names the reader; what runs is still recorded; when the
    reader is gone the log is cut and jobs are taken again, without anybody doing anything.
    """
    monkeypatch.setattr(checkpoints, "SOFT_BYTES", 200_000)
    monkeypatch.setattr(checkpoints, "HARD_BYTES", 400_000)
    monkeypatch.setattr(checkpoints, "RETRY_S", 0.0)
    wal = f"{stage.workspace.ledger}-wal"
    with stage.open() as engine, stage.hand() as hand:
        stage.submit(engine, priority=1)
        with stage.holding("begin") as reader:

            def submit_for_ever() -> None:
                for _ in range(1000):
                    stage.submit(engine)

            with pytest.raises(StoreBusy, match=rf"process {reader.pid} \(") as raised:
                submit_for_ever()
            assert raised.value.readers == [reader.pid]
            assert raised.value.limit == 400_000
            claim = hand.claim()
            assert claim is not None
            assert hand.end(claim.token)[0].state is JobState.COMPLETED
            assert os.stat(wal).st_size < 1_000_000
        stage.submit(engine)
        assert os.stat(wal).st_size <= 200_000
    stage.assert_sound()


def test_c47_one_frozen_holder_does_not_feed_a_stall(stage: Stage) -> None:
    """Thread: a leader lost its lease while the lock was taken; every call that waited made the next wait longer, for
    seventeen minutes.

    There is no leader to lose. Behind a frozen process that holds the write lock each caller is answered at its own
    deadline and told who it is, however many wait; when it thaws all goes on, and any worker is as good as the oldest.
    """
    with stage.open() as engine:
        writer = engine._driver._writer  # type: ignore[attr-defined]
        with stage.holding("begin immediate") as holder:
            os.kill(holder.pid, signal.SIGSTOP)
            os.waitpid(holder.pid, os.WUNTRACED)
            writer._busy_s = 0.5
            started = time.monotonic()
            answers = together(*[lambda: stage.submit(engine)] * 20)
            took_s = time.monotonic() - started
            os.kill(holder.pid, signal.SIGCONT)
        assert {type(answer) for answer in answers} == {StoreBusy}
        assert all(answer.holders == [holder.pid] for answer in answers)
        assert took_s < 5.0, "one after the other they would have taken ten seconds"
        writer._busy_s = 5.0
        with stage.worker() as oldest, stage.worker(), stage.worker():
            until(lambda: len(stage.sql("select id from owner where left_at is null")) == 3)
            oldest.kill()
            job = stage.submit(engine)
            assert engine.wait(job, 20).state is JobState.COMPLETED
    stage.assert_sound()


def test_c48_an_interrupt_at_any_write_leaves_whole_rows(stage: Stage) -> None:
    """Thread: after ^C rows of the queue were corrupted.

    Interrupted at each step of submit, cancel, claim and end, every row is whole and stands before the change or after
    it, and doing it again does it once.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    with stage.open() as engine, stage.hand() as hand:

        def interrupted(point: str, work: Callable[[], object]) -> None:
            with at(point, interrupt), pytest.raises(KeyboardInterrupt):
                work()
            stage.assert_sound()

        for number, point in enumerate(("submit.written", "submit.committed", "submit.woken")):
            key = f"key {number}"
            interrupted(point, lambda key=key: stage.submit(engine, key=key))  # type: ignore[misc]
            there = len(engine.jobs()) > number
            assert there == (point != "submit.written")
            assert engine.submit("act", stage.plan(), key=key).reused == there
        first, second, third = engine.jobs()
        for job, point in ((first, "control.written"), (second, "control.committed")):
            interrupted(point, lambda job=job: engine.cancel(job.id))  # type: ignore[misc]
            assert (engine.job(job.id).state is JobState.CANCELLED) == (point == "control.committed")
        engine.cancel(first.id)
        interrupted("claim.written", hand.claim)
        assert engine.job(third.id).state is JobState.QUEUED
        claim = hand.claim()
        assert claim is not None
        interrupted("acknowledge.written", lambda: hand.end(claim.token))
        assert engine.job(third.id).state is JobState.RUNNING
        interrupted("acknowledge.committed", lambda: hand.end(claim.token))
        assert engine.job(third.id).state is JobState.COMPLETED
        waiting = stage.submit(engine, "wait")
        with stage.worker() as worker:
            stage.until_runs(waiting)
            worker.send_signal(signal.SIGINT)
            assert worker.wait(30) == 0
        assert engine.job(waiting).state is JobState.QUEUED
    stage.assert_sound()


def test_c50_every_refused_submit_is_answered_at_once(stage: Stage) -> None:
    """Thread: a call to a full queue failed inside, no reply was sent, and the caller waited for ever.

    Each of many callers of a full queue gets its own typed refusal at once, or after its patience when it has some.
    """
    with stage.open() as engine:
        stage.submit(engine, queue="narrow")
        started = time.monotonic()
        answers = together(*[lambda: stage.submit(engine, queue="narrow")] * 32)
        assert {type(answer) for answer in answers} == {QueueFull}
        assert time.monotonic() - started < 5.0
        with pytest.raises(QueueFull, match="narrow"):
            stage.submit(engine, queue="narrow", patience_s=0.05)
        assert len(engine.jobs()) == 1
