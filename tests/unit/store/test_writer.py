"""Group commit: callers that meet share a commit, and none of them can tell, but by the time it takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from perenne import sqlite
from perenne.errors import OutcomeUnknown, StoreBusy, StoreFailed
from perenne.store.driver import Transaction
from perenne.store.sqlite import pen
from perenne.store.sqlite import writer as module
from perenne.store.sqlite.writer import Writer

LIMIT_S = 20.0
QUERIES = {
    "add": "insert into fact (n) values (:n)",
    "count": "select count(*) from fact",
    "wrong": "select nothing from nowhere",
}


class Connection:
    """A real connection whose statements can be met before and after they run."""

    def __init__(self, real: apsw.Connection) -> None:
        self._real = real
        self.said: list[str] = []
        self.before: Callable[[str], None] = lambda sql: None
        self.after: Callable[[str], None] = lambda sql: None

    def execute(self, sql: str, *values: Any) -> Any:
        self.before(sql)
        answer = self._real.execute(sql, *values)
        self.said.append(sql)
        self.after(sql)
        return answer

    def cursor(self) -> Connection:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Watched(Writer):
    """A writer that says when a caller has queued its request."""

    def __init__(self, connection: Any, **options: Any) -> None:
        super().__init__(connection, QUERIES, **options)
        self.queued = threading.Semaphore(0)

    def _enter(self, request: Any) -> bool:
        lead = super()._enter(request)
        self.queued.release()
        return lead

    def wait_for(self, callers: int) -> None:
        for _ in range(callers):
            assert self.queued.acquire(timeout=LIMIT_S), "a caller never came"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "fact.sqlite"
    connection = sqlite.open(path, mode="create")
    connection.execute("create table fact (n integer primary key check (n > 0)) strict")
    connection.close()
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    opened = Connection(sqlite.open(path, mode="write"))
    yield opened
    opened.close()


@pytest.fixture
def writer(connection: Connection) -> Watched:
    return Watched(connection)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(80) as pool:
        yield pool


def add(n: int) -> Callable[[Transaction], int]:
    def work(tx: Transaction) -> int:
        tx.run("add", n=n)
        return n

    return work


def stored(path: Path) -> list[int]:
    """What another connection sees."""
    reader = sqlite.open(path, mode="read")
    try:
        return [n for (n,) in reader.execute("select n from fact order by n")]
    finally:
        reader.close()


class Group:
    """Callers that queue behind a leader whose work is held, so that they share the next commit."""

    def __init__(self, writer: Watched, pool: ThreadPoolExecutor) -> None:
        self._writer, self._pool = writer, pool
        self._begun, self._go_on = threading.Event(), threading.Event()
        self.leader: Future[int] = pool.submit(writer.write, self._held)
        assert self._begun.wait(LIMIT_S)
        writer.wait_for(1)

    def _held(self, tx: Transaction) -> int:
        self._begun.set()
        assert self._go_on.wait(LIMIT_S)
        return add(1)(tx)

    def queue(self, *works: Callable[[Transaction], Any]) -> list[Future[Any]]:
        """One thread a work, each queued before the next comes."""
        futures = []
        for work in works:
            futures.append(self._pool.submit(self._writer.write, work))
            self._writer.wait_for(1)
        return futures

    def go(self) -> None:
        self._go_on.set()
        assert self.leader.result(LIMIT_S) == 1


def error_of(future: Future[Any]) -> BaseException | None:
    return future.exception(LIMIT_S)


def test_a_lone_caller_is_answered(writer: Watched, connection: Connection, path: Path) -> None:
    """One caller pays for one transaction and no savepoint, and finds its write durable."""
    assert writer.write(add(7)) == 7
    assert stored(path) == [7]
    assert connection.said == ["begin immediate", QUERIES["add"], "commit"]


def test_a_lone_caller_that_fails_changes_nothing(writer: Watched, path: Path) -> None:
    """What raises is undone, its error reaches its caller as it is, and the next write finds the way free."""

    def work(tx: Transaction) -> None:
        tx.run("add", n=7)
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        writer.write(work)
    assert stored(path) == []
    assert writer.write(add(8)) == 8
    assert stored(path) == [8]


def test_a_lone_write_is_done_however_slow_the_machine(writer: Watched, path: Path, slow_clock: None) -> None:
    """A leader that was put aside between two instructions still does its own work before it answers."""
    assert writer.write(add(7)) == 7
    assert writer.write(add(8)) == 8
    assert stored(path) == [7, 8]


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second after the last, as if the thread were put aside each time."""
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(ticks)), sleep=time.sleep))


@pytest.fixture
def still_clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that moves only by sleeping, so that a group is bounded by its number alone."""
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now

    def sleep(seconds: float) -> None:
        clock.now += seconds

    clock.sleep = sleep
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(pen, "time", clock)
    return clock


def test_callers_that_meet_share_a_commit(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, path: Path, still_clock: SimpleNamespace
) -> None:
    """Ten that queue while a commit is under way are durable by the next one, together."""
    group = Group(writer, pool)
    futures = group.queue(*(add(n) for n in range(2, 12)))
    group.go()
    assert [future.result(LIMIT_S) for future in futures] == list(range(2, 12))
    assert stored(path) == list(range(1, 12))
    assert connection.said.count("commit") == 2


def test_a_group_has_a_bound(
    writer: Watched,
    connection: Connection,
    pool: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    still_clock: SimpleNamespace,
) -> None:
    """At most `GROUP_REQUESTS` share a commit; the rest take the next."""
    assert module.GROUP_REQUESTS == 256
    monkeypatch.setattr(module, "GROUP_REQUESTS", 4)
    group = Group(writer, pool)
    futures = group.queue(*(add(n) for n in range(2, 12)))
    group.go()
    assert [future.result(LIMIT_S) for future in futures] == list(range(2, 12))
    assert connection.said.count("commit") == 1 + 3


def test_a_slow_group_ends_after_its_time(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, slow_clock: None
) -> None:
    """Once 5 ms of statements are over the commit does not wait for more of them."""
    group = Group(writer, pool)
    futures = group.queue(*(add(n) for n in range(2, 6)))
    group.go()
    assert [future.result(LIMIT_S) for future in futures] == [2, 3, 4, 5]
    assert connection.said.count("commit") == 5


def raises(error: BaseException) -> Callable[[Transaction], Any]:
    def work(tx: Transaction) -> None:
        tx.run("add", n=100)
        raise error

    return work


def too_big(tx: Transaction) -> None:
    tx.run("add", n=100)
    raise apsw.TooBigError("string or blob too big")


BAD: dict[str, tuple[Callable[[Transaction], Any], type[BaseException]]] = {
    "our own error": (raises(LookupError("no")), LookupError),
    "a constraint": (lambda tx: (tx.run("add", n=100), tx.run("add", n=-1)), StoreFailed),
    "a key that is taken": (lambda tx: (tx.run("add", n=100), tx.run("add", n=1)), StoreFailed),
    "a wrong type": (lambda tx: (tx.run("add", n=100), tx.run("add", n="x")), StoreFailed),
    "a wrong statement": (lambda tx: (tx.run("add", n=100), tx.run("wrong")), StoreFailed),
    "a value that is too big": (too_big, StoreFailed),
    "a value no column holds": (lambda tx: (tx.run("add", n=100), tx.run("add", n=object())), TypeError),
    "a number no column holds": (lambda tx: (tx.run("add", n=100), tx.run("add", n=2**70)), OverflowError),
    "half a character": (lambda tx: (tx.run("add", n=100), tx.run("add", n="\udcff")), UnicodeEncodeError),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_never_harms_its_neighbours(
    writer: Watched, pool: ThreadPoolExecutor, path: Path, name: str
) -> None:
    """E-Q2: one request of a group fails and is undone whole; those before and behind it stand."""
    work, error = BAD[name]
    group = Group(writer, pool)
    before, bad, behind = group.queue(add(2), work, add(3))
    group.go()
    assert (before.result(LIMIT_S), behind.result(LIMIT_S)) == (2, 3)
    assert isinstance(error_of(bad), error)
    assert stored(path) == [1, 2, 3]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_fails_alone_as_in_a_group(writer: Watched, path: Path, name: str) -> None:
    """The error of a request does not depend on who else was there."""
    work, error = BAD[name]
    assert writer.write(add(1)) == 1
    with pytest.raises(error):
        writer.write(work)
    assert stored(path) == [1]


def test_nobody_is_answered_before_the_commit(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, path: Path
) -> None:
    """While the commit of a group is under way, none of its callers has its answer."""
    group = Group(writer, pool)
    futures = group.queue(*(add(n) for n in range(2, 6)))
    answered_early: list[bool] = []

    def look(sql: str) -> None:
        if sql == "commit" and connection.said.count("commit") == 1:
            answered_early.extend(future.done() for future in futures)

    connection.before = look
    group.go()
    assert [future.result(LIMIT_S) for future in futures] == [2, 3, 4, 5]
    assert answered_early == [False] * 4


def test_a_leader_hands_on(writer: Watched, connection: Connection, pool: ThreadPoolExecutor) -> None:
    """A leader is answered after its own commit; it does not serve those that came later."""
    group = Group(writer, pool)
    futures = group.queue(add(2))
    first_answered = threading.Event()
    group.leader.add_done_callback(lambda _: first_answered.set())

    def hold_second(sql: str) -> None:
        if sql == "begin immediate":
            assert first_answered.wait(LIMIT_S), "the first leader waits for the second commit"

    connection.before = hold_second
    group.go()
    assert futures[0].result(LIMIT_S) == 2


def test_many_threads_lose_nothing(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, path: Path
) -> None:
    """64 threads of 50 writes: each is answered with its own answer, and each is durable once."""

    def fifty(first: int) -> list[int]:
        return [writer.write(add(n)) for n in range(first, first + 50)]

    futures = [pool.submit(fifty, 1 + 50 * thread) for thread in range(64)]
    answers = [n for future in futures for n in future.result(60)]
    assert answers == list(range(1, 3201)) == stored(path)
    assert connection.said.count("commit") < 3200


def test_an_error_of_the_commit_reaches_every_member(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, path: Path
) -> None:
    """When the commit fails nobody is told that it succeeded; whoever failed before keeps its own error."""
    group = Group(writer, pool)
    good, bad, other = group.queue(add(2), raises(LookupError("no")), add(3))

    def fail(sql: str) -> None:
        if sql == "commit" and connection.said.count("commit") == 1:
            raise apsw.IOError("disk I/O error")

    connection.before = fail
    group.go()
    unknown = OutcomeUnknown  # none of them has said how to look
    assert [type(error_of(future)) for future in (good, bad, other)] == [unknown, LookupError, unknown]
    connection.before = lambda sql: None
    assert stored(path) == [1]
    assert writer.write(add(4)) == 4
    assert stored(path) == [1, 4]


@pytest.mark.parametrize("statement", ["begin immediate", "savepoint request", QUERIES["add"], "release request"])
def test_an_error_of_the_file_reaches_its_group(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, path: Path, statement: str
) -> None:
    """An error of the file is explained, harms nobody after it, and leaves no transaction open."""
    group = Group(writer, pool)
    futures = group.queue(add(2), raises(LookupError("no")), add(3))  # who fails after a write brings in the savepoints
    group_begun = False

    def fail(sql: str) -> None:
        nonlocal group_begun
        group_begun = group_begun or sql == "begin immediate"
        if group_begun and sql == statement:
            connection.before = lambda sql: None
            raise apsw.IOError("disk I/O error")

    connection.before = fail
    group.go()
    first, bad, last = [error_of(future) for future in futures]
    assert isinstance(first, StoreFailed)
    assert isinstance(bad, (StoreFailed, LookupError))
    assert last is None or isinstance(last, StoreFailed)
    assert stored(path) == ([1] if last else [1, 3])
    assert writer.write(add(4)) == 4


HOLDER = """
import sys, perenne.sqlite
from pathlib import Path
connection = perenne.sqlite.open(Path(sys.argv[1]), mode="write")
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
connection.execute("rollback")
print("let go", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the write lock until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_busy_store_is_waited_for(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, path: Path, holder: subprocess.Popen[str]
) -> None:
    """While another process holds the lock a caller retries; once it is let go the write is done."""
    tries, refused = [0], threading.Event()

    def count(sql: str) -> None:
        tries[0] += 1
        if tries[0] == 3:
            refused.set()

    connection.before = count
    future = pool.submit(writer.write, add(7))
    assert refused.wait(LIMIT_S)
    assert holder.stdin is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert future.result(LIMIT_S) == 7
    assert stored(path) == [7]


def test_every_caller_waits_no_longer_than_its_deadline(
    connection: Connection,
    pool: ThreadPoolExecutor,
    path: Path,
    holder: subprocess.Popen[str],
    still_clock: SimpleNamespace,
) -> None:
    """A store that stays busy is refused with the limit, once per caller and not once after the other."""
    writer = Watched(connection, busy_s=2.0)
    all_queued = threading.Event()
    connection.before = lambda sql: None if all_queued.wait(LIMIT_S) else pytest.fail("the callers never came")
    futures = [pool.submit(writer.write, add(n)) for n in range(1, 6)]
    writer.wait_for(5)
    all_queued.set()
    for future in futures:
        error = error_of(future)
        assert isinstance(error, StoreBusy)
        assert "2 s" in str(error)
    assert 2.0 <= still_clock.now < 2.2
    assert stored(path) == []


def test_an_interrupt_of_a_waiting_caller_keeps_the_lead(writer: Watched, pool: ThreadPoolExecutor, path: Path) -> None:
    """Control-C in a caller that waits is raised once its request is settled; the lead that came to it is not lost."""
    group = Group(writer, pool)
    behind: list[Future[Any]] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        writer.wait_for(1)
        behind.extend(group.queue(add(3)))
        os.kill(os.getpid(), signal.SIGINT)
        group.go()

    interrupting = pool.submit(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            writer.write(add(2))
        interrupting.result(LIMIT_S)
    finally:
        signal.signal(signal.SIGINT, before)
    assert behind[0].result(LIMIT_S) == 3
    assert stored(path) == [1, 2, 3]


def test_an_interrupt_of_the_leader_is_the_leaders_alone(writer: Watched, pool: ThreadPoolExecutor, path: Path) -> None:
    """Control-C in a leader while it does its neighbours' work ends the leader; its neighbours are done by the next."""
    runs = [0]

    def interrupted_once(tx: Transaction) -> int:
        runs[0] += 1
        if runs[0] == 1:
            raise KeyboardInterrupt
        return add(3)(tx)

    group = Group(writer, pool)
    leader, neighbour, behind = group.queue(add(2), interrupted_once, add(4))
    group.go()
    assert isinstance(error_of(leader), KeyboardInterrupt)
    assert (neighbour.result(LIMIT_S), behind.result(LIMIT_S)) == (3, 4)
    assert stored(path) == [1, 3, 4]


def test_an_interrupt_after_the_commit_is_the_leaders_alone(
    writer: Watched, connection: Connection, pool: ThreadPoolExecutor, path: Path
) -> None:
    """Control-C that is noticed when the commit has just taken place does not make the group run again."""
    group = Group(writer, pool)
    leader, neighbour = group.queue(add(2), add(3))

    def interrupt(sql: str) -> None:
        if sql == "commit" and connection.said.count("commit") == 2:
            connection.after = lambda sql: None
            raise KeyboardInterrupt

    connection.after = interrupt
    group.go()
    assert isinstance(error_of(leader), KeyboardInterrupt)
    assert neighbour.result(LIMIT_S) == 3
    assert stored(path) == [1, 2, 3]


def test_an_interrupt_while_beginning_leaves_no_transaction(
    writer: Watched, connection: Connection, path: Path
) -> None:
    """Control-C that is noticed when the transaction has just begun lets go of the lock."""

    def interrupt(sql: str) -> None:
        if sql == "begin immediate":
            connection.after = lambda sql: None
            raise KeyboardInterrupt

    connection.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        writer.write(add(1))
    assert writer.write(add(2)) == 2
    assert stored(path) == [2]
