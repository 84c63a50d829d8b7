"""`with engine.transaction()`: jobs and the app's own rows that stand together, or never were."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Engine, testing
from perenne.core import limits
from perenne.errors import (
    DuplicateJob,
    InvalidInput,
    NotAllowed,
    QueueFull,
    SchemaTooOld,
    StatementRefused,
    TransactionTooLong,
)

app = App(
    "orders",
    queues={"default": 4},
    migrations=["create table orders_order (id integer primary key, job text unique not null, of text not null)"],
)


@app.task()
def pack(order: int) -> int:
    return order


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with perenne.open(testing.workspace(tmp_path / "w", app), app, access="work") as opened:
        yield opened


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one that a loaded machine never meets."""
    monkeypatch.setattr(limits, "BLOCK_S", 20.0)


def rows(engine: Engine) -> list[Any]:
    with engine.transaction() as tx:
        return tx.execute("select id, job, of from orders_order order by id")


INSERT = "insert into orders_order (id, job, of) values (?, ?, ?)"


@pytest.mark.usefixtures("patient")
def test_jobs_and_rows_stand_together(engine: Engine) -> None:
    """Submits by the engine's verb and by a task, and rows that name them by ids known inside, are there at once."""
    with engine.transaction() as tx:
        first = tx.submit("pack", {"order": 1})
        second = pack.options(depends_on=[first.job_id]).enqueue(2)
        for number, job in enumerate((first, second)):
            tx.execute(INSERT, (number, job.job_id, "Ada"))
        assert tx.execute("select count(*) from orders_order") == [(2,)]
        assert engine.jobs() == []
    assert [job.id for job in engine.jobs()] == [first.job_id, second.job_id]
    assert [row[1] for row in rows(engine)] == [first.job_id, second.job_id]
    engine.work()
    assert [job.result for job in engine.jobs()] == [b"1", b"2"]


@pytest.mark.usefixtures("patient")
def test_a_block_that_raises_leaves_nothing(engine: Engine) -> None:
    """Neither a job nor a row nor a place in the queue is left, and the error is the block's own."""

    def one_and_stop() -> None:
        with engine.transaction() as tx:
            tx.execute(INSERT, (1, pack.enqueue(1).job_id, "Ada"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        one_and_stop()
    assert (engine.jobs(), rows(engine), engine.history()) == ([], [], [])
    assert engine.queues()[0].unfinished == 0
    assert pack.enqueue(2).job_id == engine.jobs()[0].id


@pytest.mark.usefixtures("patient")
def test_a_refused_verb_that_is_caught_undoes_itself_alone(engine: Engine) -> None:
    """A full queue, a key of another job and a rule of the app's own table leave the rest of the block as it is."""
    with engine.transaction() as tx:
        job = pack.options(key="k").enqueue(1)
        with pytest.raises(DuplicateJob):
            pack.options(key="k").enqueue(2)
        for number in range(3):
            pack.enqueue(number)
        with pytest.raises(QueueFull):
            pack.enqueue(9)
        tx.execute(INSERT, (1, job.job_id, "Ada"))
        with pytest.raises(StatementRefused, match="UNIQUE"):
            tx.execute(INSERT, (2, job.job_id, "Bob"))
        with pytest.raises(InvalidInput):
            tx.submit("pack", {"order": "one"})
    assert len(engine.jobs()) == 4
    assert rows(engine) == [(1, job.job_id, "Ada")]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("sql", ["delete from job", "select id from job", "commit", "create table orders_x (a)"])
def test_only_tables_of_the_app_are_touched(engine: Engine, sql: str) -> None:
    """A statement that reaches further is refused by what it asks for; the transaction is not harmed."""
    with engine.transaction() as tx:
        pack.enqueue(1)
        with pytest.raises(StatementRefused, match="orders_…"):
            tx.execute(sql)
    assert len(engine.jobs()) == 1


@pytest.mark.usefixtures("patient")
def test_other_verbs_inside_are_refused_at_once(engine: Engine) -> None:
    """What would wait for the block itself says so instead: the engine's own verbs, and a transaction in it."""
    with engine.transaction():
        for verb in (lambda: engine.submit("pack", {"order": 1}), lambda: engine.pause()):
            with pytest.raises(NotAllowed, match="this thread is in one"):
                verb()
        with pytest.raises(NotAllowed, match="this thread is in one"), engine.transaction():
            pass
        with pytest.raises(InvalidInput, match="patience_s"):
            pack.options(patience_s=1.0).enqueue(1)
    assert engine.jobs() == []
    with pytest.raises(NotAllowed, match="inside its `with`"):
        engine.transaction().execute("select 1")


@pytest.mark.usefixtures("patient")
def test_others_wait_and_workers_are_woken_after_it(engine: Engine) -> None:
    """A submit from another thread comes after the block; a worker that sleeps runs the jobs of the block at once."""
    running = threading.Thread(target=engine.work, kwargs={"stay": True})
    running.start()
    with engine.transaction():
        other = threading.Thread(target=lambda: engine.submit("pack", {"order": 9}))
        other.start()
        job = pack.enqueue(1)
    other.join()
    assert engine.wait(job.job_id, 20.0).result == b"1"
    engine.stop()
    running.join()
    assert len(engine.jobs()) == 2


@pytest.mark.usefixtures("patient")
def test_a_job_that_fails_as_it_is_stored_is_told(engine: Engine) -> None:
    """A job in the block whose dependency ended badly ends with it, and listeners hear of it after the commit."""
    gone = pack.enqueue(1).job_id
    engine.cancel(gone)
    told: list[tuple[str, str]] = []
    engine.on_end(lambda job: told.append((job.id, engine.job(job.id).state)))
    with engine.transaction():
        failed = pack.options(depends_on=[gone], on_dependency="fail").enqueue(2)
        assert told == []
    assert told == [(failed.job_id, "FAILED")]


@pytest.mark.usefixtures("patient")
def test_a_coroutine_enqueues_in_it(engine: Engine) -> None:
    """`aenqueue` inside belongs to the transaction, although another thread stores it."""

    async def both() -> None:
        with engine.transaction() as tx:
            job = await pack.aenqueue(1)
            tx.execute(INSERT, (1, job.job_id, "Ada"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(both())
    assert engine.jobs() == []


def test_past_50_ms_all_is_undone_and_the_lock_is_free(engine: Engine) -> None:
    """A block that waits for something keeps nobody longer; it is told at its next verb and at its end."""
    submitted = threading.Thread(target=lambda: engine.submit("pack", {"order": 9}))

    def waits_for_the_other() -> None:
        with engine.transaction() as tx:
            submitted.start()
            submitted.join(20)
            assert not submitted.is_alive()
            with pytest.raises(TransactionTooLong):
                tx.execute("select 1")

    with pytest.raises(TransactionTooLong, match="longer than 50 ms"):
        waits_for_the_other()
    assert [job.input for job in engine.jobs()] == [b'{"order":9}']


def test_the_tables_of_a_newer_app_need_a_worker(engine: Engine) -> None:
    """A short command of a newer app is refused until a worker has taken the step; a look is not."""
    newer = App("orders", [pack.kind], migrations=[*app.migrations, "create table orders_more (a)"])
    root = engine.workspace.root
    with pytest.raises(SchemaTooOld, match="start a worker"):
        perenne.open(root, newer)
    perenne.open(root, newer, access="read").close()
    perenne.open(root, newer, access="work").close()
    with perenne.open(root, newer) as opened, opened.transaction() as tx:
        assert tx.execute("select a from orders_more") == []


def test_steps_may_be_files(tmp_path: Path) -> None:
    """A folder of numbered files is as good as a list; one text alone is refused, and an app named as our tables."""
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "0001_first.sql").write_text("create table files_a (a);")
    filed = App("files", migrations=tmp_path / "steps")
    root = testing.workspace(tmp_path / "w", filed)
    with perenne.open(root, filed) as opened, opened.transaction() as tx:
        assert tx.execute("select a from files_a") == []
    with pytest.raises(InvalidInput, match="one text"):
        App("files", migrations="create table files_a (a)")
    with pytest.raises(InvalidInput, match="another word"):
        testing.workspace(tmp_path / "x", App("job", migrations=["create table job_a (a)"]))
    assert not (tmp_path / "x").exists()
