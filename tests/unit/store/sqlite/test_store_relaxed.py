"""Relaxed writes: not synced by themselves, safe from kill -9, and on disk once anybody got a durable answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from perenne.core.job import Durability, Receipt, Submission
from perenne.errors import DuplicateJob, OutcomeUnknown, StoreFailed
from perenne.store.ledger import Ledger
from perenne.store.sqlite.driver import SQLiteDriver
from perenne.store.sqlite.syncing import Syncing

Submit = Callable[[int], Submission]
Open = Callable[..., SQLiteDriver]
FSYNC = 1034
SOURCE = str(Path(sys.modules["perenne"].__file__ or "").parents[1])


@pytest.fixture
def store(open_store: Open, disk: Any) -> SQLiteDriver:
    """A store on a disk that counts its syncs, after a first commit, so that the log has its header."""
    store = open_store(vfs=disk.name)
    store.write(lambda tx: tx.run("insert_queue", name="first", capacity=1))
    disk.calls.clear()
    return store


def relaxed(wanted: Submission, **wishes: Any) -> Submission:
    return msgspec.structs.replace(wanted, durability=Durability.RELAXED, **wishes)


def submit(store: SQLiteDriver, wanted: Submission) -> Receipt:
    return Ledger(store).submit(wanted, now=1, actor="test")


def syncs(disk: Any) -> int:
    """How often the log was synced since the last time this was asked."""
    found: int = disk.calls.count(("sync", "wal"))
    disk.calls.clear()
    return found


def test_relaxed_ones_are_not_synced_and_the_next_durable_one_is(
    store: SQLiteDriver, disk: Any, submission: Submit
) -> None:
    """Any number of relaxed submits costs no sync; the durable one after them costs one, and each says what it is."""
    said = [submit(store, relaxed(submission(n))) for n in range(20)]
    assert {receipt.durability for receipt in said} == {Durability.RELAXED}
    assert syncs(disk) == 0
    assert submit(store, submission(99)).durability is Durability.DURABLE
    assert syncs(disk) == 1


@pytest.mark.parametrize("capacity", [10, 1])
def test_durable_request_that_finds_a_relaxed_job_makes_it_durable(
    store: SQLiteDriver, disk: Any, submission: Submit, capacity: int
) -> None:
    """A durable submit that is answered `reused` has synced what it found, also where it had nothing to write."""
    Ledger(store).add_queue("lane", capacity)  # in a full queue the key is looked up and nothing is touched
    first = msgspec.structs.replace(submission(1), key="once", queue="lane")
    submit(store, relaxed(first))
    syncs(disk)
    again = submit(store, msgspec.structs.replace(first, id=submission(2).id))
    assert (again.reused, again.job_id, again.durability) == (True, first.id, Durability.DURABLE)
    assert syncs(disk) == 1


def test_relaxed_request_that_finds_a_job_promises_no_more(store: SQLiteDriver, disk: Any, submission: Submit) -> None:
    """A relaxed submit that is answered `reused` says relaxed: nobody synced for it."""
    submit(store, relaxed(submission(1), key="once"))
    again = submit(store, relaxed(submission(1), key="once"))
    assert (again.reused, again.durability) == (True, Durability.RELAXED)
    assert syncs(disk) == 0


def test_content_under_a_relaxed_key_stays_its_own(store: SQLiteDriver, submission: Submit) -> None:
    """The key of a relaxed job is taken: other content under it is refused, durable or relaxed."""
    submit(store, relaxed(submission(1), key="once"))
    for durability in Durability:
        other = msgspec.structs.replace(submission(2), key="once", input=b"[]", durability=durability)
        with pytest.raises(DuplicateJob):
            submit(store, other)


def test_one_durable_member_makes_a_batch_durable(store: SQLiteDriver, disk: Any, submission: Submit) -> None:
    """A batch is one transaction: relaxed when all ask for it, durable for each as soon as one does not."""
    ledger = Ledger(store)
    said = ledger.submit_many([relaxed(submission(n)) for n in range(3)], now=1, actor="test")
    assert ([one.durability for one in said], syncs(disk)) == ([Durability.RELAXED] * 3, 0)
    said = ledger.submit_many([relaxed(submission(4)), submission(5)], now=1, actor="test")
    assert ([one.durability for one in said], syncs(disk)) == ([Durability.DURABLE] * 2, 1)


def test_a_group_is_synced_for_one_durable_member(store: SQLiteDriver, disk: Any, submission: Submit) -> None:
    """Callers that meet share a commit that gives what the most careful one asks; no durable one joins an unsynced."""
    inside, go_on = threading.Event(), threading.Event()

    def held(tx: Any) -> None:
        inside.set()
        assert go_on.wait(20)

    answers: list[Receipt] = []
    leader = threading.Thread(target=store.write, args=(held,), kwargs={"durable": False})
    leader.start()
    assert inside.wait(20)
    wanted = [relaxed(submission(1)), submission(2), relaxed(submission(3))]
    others = [threading.Thread(target=lambda one=one: answers.append(submit(store, one))) for one in wanted]
    for number, other in enumerate(others, 1):
        other.start()
        while len(store._writer._waiting) < number:  # type: ignore[union-attr]
            pass  # who has queued up sleeps and says nothing
    go_on.set()
    for other in (leader, *others):
        other.join(20)
    assert sorted(str(one.durability) for one in answers) == ["durable", "relaxed", "relaxed"]
    assert syncs(disk) == 1


def test_empty_commit_vouches_for_what_it_saw(store: SQLiteDriver, disk: Any, submission: Submit) -> None:
    """A durable transaction that writes nothing still syncs what it may have seen."""
    submit(store, relaxed(submission(1)))
    store.write(lambda tx: tx.all("list_queues"))
    assert syncs(disk) == 1


DYING = """
import os, signal, sys
from pathlib import Path
from perenne.core.job import Durability, Submission
from perenne.store.ledger import Ledger
from perenne.store.sqlite.driver import SQLiteDriver
store = SQLiteDriver(Path(sys.argv[1]), workspace=sys.argv[2])
for n in range(50):
    id = f"00000000-0000-4000-8000-{n:012d}"
    wanted = Submission(id=id, kind="sum", version=1, input=b"{}", durability=Durability.RELAXED)
    print(Ledger(store).submit(wanted, now=1, actor="test").durability, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_9_loses_none(path: Path, rows: Callable[[str], list[Any]]) -> None:
    """Every relaxed job that was answered is there after kill -9."""
    command = [sys.executable, "-c", DYING, str(path), "11111111-1111-4111-8111-111111111111"]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": SOURCE}
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert ended.stdout.split() == ["relaxed"] * 50
    assert rows("select count(*) from job") == [[50]]


def test_failed_sync_takes_earlier_relaxed_ones_out_of_the_log(
    store: SQLiteDriver, disk: Any, submission: Submit, path: Path, rows: Callable[[str], list[Any]]
) -> None:
    """After a sync that failed, frames never synced may be gone: all is copied and the log begins anew before others.

    Else a hole in the log would hide every durable commit after it.
    """
    submit(store, relaxed(submission(1)))
    disk.fail("sync", "wal", apsw.IOError, FSYNC, times=1)
    with pytest.raises((StoreFailed, OutcomeUnknown)):
        submit(store, submission(2))
    disk.heal()
    assert os.path.getsize(f"{path}-wal") == 0
    submit(store, submission(3))
    assert rows("select count(*) from job") == [[2]]


def test_level_that_does_not_take_is_refused(path: Path) -> None:
    """The level is read back each time it is set; where SQLite says another, nothing is begun under it."""

    class Deaf:
        def pragma(self, name: str, value: object = None) -> int:
            return 2

    with pytest.raises(StoreFailed, match="synchronous=normal did not take"):
        Syncing(Deaf(), path).choose(False)  # type: ignore[arg-type]
