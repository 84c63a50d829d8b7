"""The WAL stays short; while something keeps it long, new work is refused and what runs is still recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne.core.job import Submission
from perenne.errors import DiskLow, StoreBusy
from perenne.store.ledger import Lane, Ledger
from perenne.store.owners import Owner, Owners
from perenne.store.sqlite import checkpoints, holders
from perenne.store.sqlite.driver import SQLiteDriver

Open = Callable[..., SQLiteDriver]
Submit = Callable[[int], Submission]

SOFT, HARD = 200_000, 400_000

READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
connection.execute("begin")
connection.execute("select count(*) from job").fetchall()
print("reading", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def reader(path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts a process that reads and goes on reading, until its standard input is closed."""
    started: list[subprocess.Popen[str]] = []

    def reader() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", READER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        return process

    yield reader
    for process in started:
        process.communicate(timeout=30)


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SOFT_BYTES", SOFT)
    monkeypatch.setattr(checkpoints, "HARD_BYTES", HARD)
    monkeypatch.setattr(checkpoints, "RETRY_S", 0.0)


def wal_bytes(path: Path) -> int:
    return os.stat(f"{path}-wal").st_size


def test_limits_are_set_on_the_connection(open_store: Open) -> None:
    """Each writing connection copies the WAL every 8000 pages and cuts it at 64 MiB."""
    connection = open_store()._connection
    assert connection.pragma("wal_autocheckpoint") == 8000
    assert connection.pragma("journal_size_limit") == 64 << 20


@pytest.mark.usefixtures("low_limits")
def test_long_wal_is_cut(path: Path, open_store: Open, submission: Submit) -> None:
    """A WAL above the soft limit is copied and cut between two transactions, without anybody asking."""
    ledger = Ledger(open_store())
    longest = 0
    for n in range(100):
        ledger.submit(submission(n), now=1, actor="test")
        longest = max(longest, wal_bytes(path))
    assert longest <= SOFT + 16 * 20_000  # it is measured every sixteenth commit
    assert ledger.submit(submission(0), now=1, actor="test").reused


@pytest.mark.usefixtures("low_limits")
def test_reader_that_stays_stops_submits_and_nothing_else_r14(
    path: Path, open_store: Open, submission: Submit, reader: Callable[[], subprocess.Popen[str]]
) -> None:
    """Above the hard limit a submit is refused with the reader's process; ends are recorded; it heals by itself."""
    store = open_store()
    ledger = Ledger(store)
    Owners(store).join(Owner("w", 1, "boot", "start"), now=1)
    ledger.submit(submission(0), now=1, actor="test")
    process = reader()

    def submit_for_ever() -> None:
        for n in range(1, 1000):
            ledger.submit(submission(n), now=1, actor="test")

    with pytest.raises(StoreBusy, match=rf"WAL holds [\d,]+ bytes, .*process {process.pid} \(") as raised:
        submit_for_ever()
    assert raised.value.readers == [process.pid]
    assert wal_bytes(path) > HARD
    assert isinstance(ledger.refusal("submit"), StoreBusy)
    assert ledger.refusal("claim") is None
    assert ledger.claim([Lane("sum", 1)], owner="w", attempt="a", now=2) is not None
    process.communicate(timeout=30)
    ledger.submit(submission(1001), now=1, actor="test")
    assert wal_bytes(path) <= SOFT
    assert ledger.refusal("submit") is None


@pytest.mark.usefixtures("low_limits")
def test_cutting_waits_for_nobody(
    open_store: Open,
    submission: Submit,
    reader: Callable[[], subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a reader is in the way, a commit is not held up by the cutting for more than its bound."""
    ledger = Ledger(open_store())
    reader()
    waits: list[float] = []
    cut = checkpoints.cut

    def timed(connection: apsw.Connection) -> int:
        started = time.monotonic()
        try:
            return cut(connection)
        finally:
            waits.append(time.monotonic() - started)

    monkeypatch.setattr(checkpoints, "cut", timed)
    monkeypatch.setattr(checkpoints, "HARD_BYTES", 1 << 30)
    for n in range(60):
        ledger.submit(submission(n), now=1, actor="test")
    assert waits
    assert max(waits) < 1.0


def test_cutting_is_tried_once_a_second(path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WAL that cannot be cut is not tried again at every commit."""
    monkeypatch.setattr(checkpoints, "SOFT_BYTES", 0)
    tried: list[object] = []

    def refuse(connection: apsw.Connection) -> None:
        tried.append(None)
        raise apsw.BusyError("a reader")

    monkeypatch.setattr(checkpoints, "cut", refuse)
    store = open_store()
    for n in range(20):
        store.write(lambda tx, n=n: tx.run("insert_queue", name=f"q{n}", capacity=1))  # type: ignore[misc]
    assert len(tried) == 1


def test_full_disk_leaves_the_room_of_the_wal(
    path: Path, open_store: Open, submission: Submit, disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the WAL can grow no more it is copied but not given back, so that the next commits have its room again."""
    monkeypatch.setattr(checkpoints, "RETRY_S", 0.0)  # so small a WAL is full again within the second
    ledger = Ledger(open_store(vfs=disk.name))
    ledger.submit(submission(0), now=1, actor="test")
    disk.wal_room_bytes = wal_bytes(path) + 100_000
    refused = 0
    for n in range(1, 100):
        try:
            ledger.submit(submission(n), now=1, actor="test")
        except DiskLow:
            refused += 1
            assert wal_bytes(path) > 50_000
            ledger.submit(submission(n), now=1, actor="test")
    assert refused >= 1


def test_holders_are_named(path: Path, open_store: Open, reader: Callable[[], subprocess.Popen[str]]) -> None:
    """Who reads and who writes is told with pid and command; a process that only has the file open is not."""
    store = open_store()
    assert holders.readers(path) == holders.writers(path) == []
    process = reader()
    assert [holder.pid for holder in holders.readers(path)] == [process.pid]
    assert holders.readers(path)[0].command.startswith("python")
    assert not holders.readers(path)[0].stopped
    found = store.write(lambda tx: holders.writers(path))
    assert [holder.pid for holder in found] == [os.getpid()]
    assert str(found[0]) == f"this process ({os.getpid()})"


def test_stopped_holder_is_called_stopped(path: Path, open_store: Open, reader: Callable[..., object]) -> None:
    """A process that was stopped while it reads is named as such."""
    open_store()
    process = reader()
    assert isinstance(process, subprocess.Popen)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        os.waitpid(process.pid, os.WUNTRACED)
        assert holders.sentence(holders.readers(path), "nobody").endswith("stopped)")
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_sentence_names_at_most_three() -> None:
    """Four holders are three and others; none is what the caller says."""
    four = [holders.Holder(n, "reader", stopped=False) for n in (1, 2, 3, 4)]
    named = "process 1 (reader), process 2 (reader), process 3 (reader)"
    assert holders.sentence(four, "nobody") == f"{named} and others"
    assert holders.sentence(four[:3], "nobody") == named
    assert holders.sentence([], "nobody") == "nobody"


def test_nothing_is_named_where_locks_are_not_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the kernel's list nobody is named, and nothing fails."""
    monkeypatch.setattr(holders, "_LOCKS", path / "none")
    assert holders.readers(path) == []
