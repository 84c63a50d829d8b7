"""No connection crosses a fork: the child neither uses nor closes what the parent opened, nor opens it beside it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne.core.job import Submission
from perenne.errors import StoreFailed
from perenne.store.ledger import Ledger
from perenne.store.sqlite import driver
from perenne.store.sqlite.driver import SQLiteDriver

Open = Callable[..., SQLiteDriver]
Submit = Callable[[int], Submission]


def in_child(work: Callable[[], object]) -> str:
    """What `work` answers, or raises, in a forked child."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = repr(work())
        except BaseException as error:
            said = "".join(traceback.format_exception_only(error))
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    return answer


def test_child_cannot_use_the_parents_store_r1(
    open_store: Open, submission: Submit, rows: Callable[[str], list[Any]]
) -> None:
    """In the child, reading and writing are refused with the way out; the parent works on and nothing is lost."""
    store = open_store()
    ledger = Ledger(store)
    ledger.submit(submission(1), now=1, actor="test")
    store.read(lambda tx: tx.one("read_store"))
    for use in (
        lambda: ledger.submit(submission(2), now=1, actor="child"),
        lambda: store.read(lambda tx: tx.one("read_store")),
        lambda: store.write(lambda tx: None),
    ):
        assert "opened before this process was forked" in in_child(use)
        assert "spawn, not fork" in in_child(use)
    ledger.submit(submission(3), now=1, actor="test")
    assert rows("select count(*) from job") == [[2]]


def test_child_refuses_even_while_the_parent_writes(open_store: Open) -> None:
    """A fork from inside a transaction does not hang in the child: what the other threads hold is not waited for."""
    store = open_store()
    assert "forked" in store.write(lambda tx: in_child(lambda: store.write(lambda tx: None)))
    assert "forked" in store.read(lambda tx: in_child(lambda: store.read(lambda tx: None)))


def test_child_cannot_open_the_same_file_anew(path: Path, open_store: Open) -> None:
    """SQLite in the child takes the parent's locks for its own, so the same file is refused there under any name."""
    open_store()
    assert "spawn, not fork" in in_child(lambda: SQLiteDriver(path, workspace="w"))
    link = path.with_name("link")
    link.symlink_to(path)
    assert "spawn, not fork" in in_child(lambda: SQLiteDriver(link, workspace="w"))


def test_fresh_connection_in_a_child_would_hold_no_lock(path: Path, open_store: Open) -> None:
    """The danger is real: a connection that a child opens beside an inherited one takes no lock on the database."""
    open_store()

    def locks() -> int:
        connection = apsw.Connection(str(path))
        connection.execute("select count(*) from job").fetchall()
        inode = str(os.stat(path).st_ino)
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return sum(line[4] == str(os.getpid()) and line[5].endswith(f":{inode}") for line in lines)

    assert locks() > 0
    assert in_child(locks) == "0"


def test_child_may_open_other_stores(path: Path, open_store: Open, tmp_path: Path) -> None:
    """Another store, and one that the parent had closed before the fork, open in the child as anywhere."""
    driver.create(tmp_path / "other.sqlite", workspace="other", now=1)

    def look(file: Path, workspace: str) -> Callable[[], object]:
        def work() -> object:
            store = SQLiteDriver(file, workspace=workspace)
            found = store.read(lambda tx: tx.one("read_store"))
            store.close()
            return found[0] if found else None

        return work

    assert in_child(look(path, "11111111-1111-4111-8111-111111111111")).startswith("'1111")
    open_store()
    assert in_child(look(tmp_path / "other.sqlite", "other")) == "'other'"


def test_child_of_a_child_is_refused_too(open_store: Open) -> None:
    """What one fork forbids the next one does not allow."""
    store = open_store()
    assert "forked" in in_child(lambda: in_child(lambda: store.read(lambda tx: None)))


def test_child_that_drops_and_closes_harms_nothing_r2_r3(
    open_store: Open, submission: Submit, rows: Callable[[str], list[Any]]
) -> None:
    """Closing and collecting the store in a child, in the middle of a transaction, leaves the transaction alone."""
    store = open_store()
    held = [store]

    def close_and_forget() -> str:
        held.pop().close()
        gc.collect()
        return "closed"

    def write(tx: Any) -> str:
        Ledger(store)
        tx.run("insert_queue", name="second", capacity=1)
        return in_child(close_and_forget)

    assert store.write(write) == "'closed'"
    Ledger(store).submit(submission(1), now=1, actor="test")
    assert rows("select name from queue order by name") == [["default"], ["second"]]
    assert rows("pragma integrity_check") == [["ok"]]


EXITING = """
import os, sys, threading
from pathlib import Path
from perenne.store.sqlite.driver import SQLiteDriver

store, how = SQLiteDriver(Path(sys.argv[1]), workspace=sys.argv[2]), sys.argv[3]
# With so few pages in memory the transaction stands in the WAL before it is committed; undoing it hides it there.
store._connection.pragma("cache_size", 5)
store.write(lambda tx: tx.run("insert_queue", name="before", capacity=1))  # something to go back to

def work(tx):
    for n in range(300):
        tx.run("insert_queue", name=f"queue {n}" + "x" * 100, capacity=1)
    child = os.fork()
    if child == 0 and how == "returns":
        return
    if child == 0 and how == "exits":
        sys.exit(0)
    if child == 0:
        raise LookupError("no parent")
    os.waitpid(child, 0)
    for n in range(300, 400):
        tx.run("insert_queue", name=f"queue {n}" + "x" * 100, capacity=1)

def wait_for(number):
    while len(store._writer._waiting) < number:
        pass

def lead(tx):
    # What stands behind this one is the next group: our work first, in a savepoint because it is not alone.
    leading.set()
    wait_for(1)
    others.append(threading.Thread(target=store.write, args=(lambda tx: None,)))
    others[-1].start()
    wait_for(2)

leading, others = threading.Event(), []
if how == "in a group":
    threading.Thread(target=store.write, args=(lead,)).start()
    leading.wait(20)
store.write(work)
print("written")
print(len(store.read(lambda tx: tx.all("list_queues"))))
for other in others:
    other.join()  # whoever closes the store while it is written to is told so
store.close()
"""


ERRORS = {
    "returns": "opened before this process was forked",
    "raises": "no parent",
    "exits": "",
    "in a group": "forked",
}


@pytest.mark.parametrize("how", ERRORS)
def test_child_that_unwinds_the_parents_transaction_harms_nothing(
    path: Path, rows: Callable[[str], list[Any]], how: str
) -> None:
    """A child that leaves a transaction neither commits nor undoes it, nor does the end of its interpreter."""
    ended = subprocess.run(
        [sys.executable, "-c", EXITING, str(path), "11111111-1111-4111-8111-111111111111", how],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stdout.split() == ["written", "402"], ended.stderr
    assert ERRORS[how] in (ended.stderr.splitlines() or [""])[-1]
    assert rows("select count(*) from queue") == [[402]]
    assert rows("pragma integrity_check") == [["ok"]]


def test_child_does_not_wait_for_threads_that_are_not_there(open_store: Open) -> None:
    """A child that returns from inside a transaction ends, even if another thread was queueing while it was forked."""
    store = open_store()
    assert store._writer is not None
    guard = store._writer._guard
    children: list[int] = []

    def work(tx: object) -> None:
        guard.acquire()  # as a thread that just joins the queue, and that the child does not have
        children.append(os.fork())
        if children != [0]:
            guard.release()

    try:
        store.write(work)
    finally:
        if children == [0]:
            os._exit(7)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(children[0], os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)  # reason: a child that hangs gives no signal
    if ended == (0, 0):
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(ended[1]) == 7
    assert ended != (0, 0)


def test_closing_in_the_child_says_nothing(open_store: Open) -> None:
    """`close` in the child is quiet, as the end of a `with` should be."""
    store = open_store()
    assert in_child(store.close) == "None"
    with pytest.raises(StoreFailed):
        Path(store._path).read_bytes()
