"""A transaction that an application's code fills: alone, whole, bounded in time, and let go whatever the code does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from perenne import sqlite
from perenne.core import limits
from perenne.errors import NotAllowed, OutcomeUnknown, StatementRefused, StoreFailed, TransactionTooLong
from perenne.store.driver import Transaction
from perenne.store.sqlite import block as block_module
from perenne.store.sqlite import pen
from perenne.store.sqlite.writer import Writer
from perenne.store.starved import starved_s

LIMIT_S = 20.0
QUERIES = {"add": "insert into fact (n) values (:n)", "count": "select count(*) from fact"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "fact.sqlite"
    connection = sqlite.open(path, mode="create")
    connection.execute("create table fact (n integer primary key check (n > 0)) strict")
    connection.execute("create table demo_note (text text primary key)")
    connection.close()
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    writer = Writer(sqlite.open(path, mode="write"), QUERIES)
    yield writer
    writer.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one that a loaded machine never meets."""
    monkeypatch.setattr(limits, "BLOCK_S", LIMIT_S)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is met soon."""
    monkeypatch.setattr(limits, "BLOCK_S", 0.02)


def add(n: int) -> Callable[[Transaction], None]:
    return lambda tx: tx.run("add", n=n) and None


def facts(path: Path) -> list[int]:
    """What somebody else sees."""
    connection = sqlite.open(path, mode="read")
    try:
        return [n for (n,) in connection.execute("select n from fact order by n")]
    finally:
        connection.close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)  # reason: what is waited for happens inside another thread's call and has no signal


@pytest.mark.usefixtures("patient")
def test_steps_stand_together_or_not_at_all(writer: Writer, path: Path) -> None:
    """Nobody sees a step before the commit, all steps after it, and none after an undo."""
    block = writer.block()
    block.run(add(1))
    block.run(add(2))
    assert facts(path) == []
    block.commit()
    assert facts(path) == [1, 2]
    gone = writer.block()
    gone.run(add(3))
    gone.undo()
    gone.undo()
    assert facts(path) == [1, 2]


@pytest.mark.usefixtures("patient")
def test_a_step_that_fails_undoes_itself_alone(writer: Writer, path: Path) -> None:
    """Whoever catches the error of a step may go on with the others."""
    block = writer.block()
    block.run(add(1))

    def two_then_stop(tx: Transaction) -> None:
        tx.run("add", n=2)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        block.run(two_then_stop)
    with pytest.raises(StatementRefused, match="UNIQUE"):
        block.run(lambda tx: [tx.foreign("demo_", "insert into demo_note values ('a'), ('a')", ())])
    block.run(add(3))
    block.commit()
    assert facts(path) == [1, 3]


@pytest.mark.usefixtures("patient")
def test_a_statement_that_ends_the_transaction_ends_it_for_good(writer: Writer, path: Path) -> None:
    """A rollback inside a statement leaves nothing of the block, and the next step says so."""
    block = writer.block()
    block.run(add(1))
    with pytest.raises(StatementRefused):
        block.run(lambda tx: tx.foreign("demo_", "insert or rollback into demo_note values ('a'), ('a')", ()))
    with pytest.raises(TransactionTooLong, match="ended already"):
        block.run(add(2))
    with pytest.raises(TransactionTooLong, match="ended already"):
        block.commit()
    writer.write(add(3))
    assert facts(path) == [3]


@pytest.mark.usefixtures("patient")
def test_others_wait_for_the_block_and_share_no_commit_with_it(writer: Writer, path: Path) -> None:
    """Callers that come meanwhile are answered after it, and an undo takes nothing of theirs along."""
    block = writer.block()
    block.run(add(1))
    threads = [threading.Thread(target=writer.write, args=(add(n),)) for n in (11, 12)]
    blocks: list[int] = []

    def another() -> None:
        inner = writer.block()
        blocks.append(inner.run(lambda tx: tx.all("count"))[0][0])
        inner.run(add(13))
        inner.commit()

    threads.append(threading.Thread(target=another))
    for thread in threads:
        thread.start()
    until(lambda: len(writer._waiting) == 3)
    assert facts(path) == []
    block.undo()
    for thread in threads:
        thread.join(LIMIT_S)
    assert facts(path) == [11, 12, 13]
    assert blocks[0] in (0, 1, 2)


@pytest.mark.usefixtures("patient")
def test_a_block_that_waits_is_not_taken_into_a_group(writer: Writer, path: Path) -> None:
    """Whoever leads a group leaves a block to its own caller, and goes on with those behind it later."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        tx.run("add", n=1)
        inside.set()
        assert go_on.wait(LIMIT_S)

    def block() -> None:
        one = writer.block()
        one.run(add(2))
        one.commit()

    threads = [threading.Thread(target=work) for work in (lambda: writer.write(slow), block)]
    threads[0].start()
    assert inside.wait(LIMIT_S)
    threads[1].start()
    until(lambda: len(writer._waiting) == 1)
    threads.append(threading.Thread(target=lambda: writer.write(add(3))))
    threads[2].start()
    until(lambda: len(writer._waiting) == 2)
    go_on.set()
    for thread in threads:
        thread.join(LIMIT_S)
    assert facts(path) == [1, 2, 3]


@pytest.mark.usefixtures("hasty")
def test_a_block_past_its_time_is_undone_while_it_still_waits(writer: Writer, path: Path) -> None:
    """The lock is free at the limit although the code never comes back; when it does, it is told, and others stand."""
    block = writer.block()
    block.run(add(1))
    thread = threading.Thread(target=writer.write, args=(add(2),))
    thread.start()
    thread.join(LIMIT_S)
    assert facts(path) == [2]
    with pytest.raises(TransactionTooLong, match="longer than 20 ms and was undone"):
        block.run(add(3))
    with pytest.raises(TransactionTooLong):
        block.commit()
    block.undo()
    assert facts(path) == [2]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("starved", "stands"), [(0.9, True), (0.0, False)])
def test_time_without_a_processor_is_not_the_block_s(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch, starved: float, stands: bool
) -> None:
    """What a loaded machine takes from the thread is added to the limit; what the block itself takes is not."""
    begun = time.monotonic()
    monkeypatch.setattr(block_module, "starved_s", lambda thread: starved * (time.monotonic() - begun))
    block = writer.block()
    block.run(add(1))
    time.sleep(0.06)  # reason: the block lasts three of its limits
    if stands:
        block.commit()
    else:
        with pytest.raises(TransactionTooLong):
            block.commit()
    writer.write(add(2))
    assert facts(path) == ([1, 2] if stands else [2])


@pytest.mark.usefixtures("hasty")
def test_a_starved_block_ends_all_the_same(writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However starved, a block lasts for twenty limits at most: whoever waits for the lock is not starved with it."""
    monkeypatch.setattr(block_module, "starved_s", lambda thread: time.monotonic())
    block = writer.block()
    block.run(add(1))
    thread = threading.Thread(target=writer.write, args=(add(2),))
    thread.start()
    thread.join(LIMIT_S)
    with pytest.raises(TransactionTooLong):
        block.commit()
    assert facts(path) == [2]


def test_the_kernel_tells_how_long_a_thread_was_starved() -> None:
    """A number that only grows where the kernel tells, and nothing for a thread that is not there."""
    first = starved_s(threading.get_native_id())
    assert 0.0 <= first <= starved_s(threading.get_native_id())
    assert starved_s(0) == 0.0


@pytest.mark.usefixtures("hasty")
def test_a_statement_past_its_time_is_stopped(writer: Writer, path: Path) -> None:
    """A single statement that would run for minutes ends at the limit."""
    endless = "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n"
    block = writer.block()
    begun = time.monotonic()
    with pytest.raises(TransactionTooLong):
        block.run(lambda tx: tx.foreign("demo_", endless, ()))
    assert time.monotonic() - begun < LIMIT_S
    writer.write(add(1))
    assert facts(path) == [1]


@pytest.mark.usefixtures("patient")
def test_a_thread_in_a_block_does_not_wait_for_itself(writer: Writer) -> None:
    """A write beside the block, and a block in a block, are refused at once instead of standing still."""
    block = writer.block()
    with pytest.raises(NotAllowed, match="this thread is in one"):
        writer.write(add(1))
    with pytest.raises(NotAllowed, match="this thread is in one"):
        writer.block()
    block.undo()
    writer.write(add(1))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("recheck", "error"), [(None, OutcomeUnknown), (lambda tx: False, StoreFailed), (lambda tx: True, None)]
)
def test_a_commit_that_fails_half_way_is_found_out_about(
    writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch, recheck: Callable[[Transaction], bool], error: type
) -> None:
    """What became of it is asked of the store; where nobody could tell, the caller is told that."""
    block = writer.block()
    block.run(add(1))
    real = writer._pen.commit

    def failing() -> None:
        real()
        raise pen.HalfWay(apsw.IOError("the disk"))

    monkeypatch.setattr(writer._pen, "commit", failing)
    if error is None:
        block.commit(recheck=recheck)
    else:
        with pytest.raises(error):
            block.commit(recheck=recheck)
    monkeypatch.undo()
    writer.write(add(2))
    assert facts(path) == [1, 2]
