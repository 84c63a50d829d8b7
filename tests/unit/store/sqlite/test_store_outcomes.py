"""A commit that fails half-way is looked into: callers learn what is true, and what is not there never appears."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import apsw
import msgspec
import pytest

from perenne.core import events
from perenne.core.job import Submission
from perenne.core.publication import Published
from perenne.core.states import JobState
from perenne.errors import DiskLow, EngineError, OutcomeUnknown, StoreBusy, StoreFailed
from perenne.store.ledger import Claim, Ending, Lane, Ledger, Turn
from perenne.store.notices import Notices
from perenne.store.owners import Owner, Owners
from perenne.store.sqlite.driver import SQLiteDriver

Open = Callable[..., SQLiteDriver]
Submit = Callable[[int], Submission]
Rows = Callable[[str], list[Any]]

LANES = [Lane("sum", 1)]
ENDED = events.Ended(answer=events.Returned(b"1"), published=Published.absent(), active_ms=1, limit_used=False)
FSYNC, WRITE, READ = 1034, 778, 266  # SQLite's extended codes


@pytest.fixture
def ledger(open_store: Open, disk: Any) -> Ledger:
    """A ledger on the disk that can fail, with one job and one worker."""
    store = open_store(vfs=disk.name)
    Owners(store).join(Owner("w", 1, "boot", "start"), now=1)
    return Ledger(store)


def claim(ledger: Ledger, attempt: str = "a") -> Claim:
    claimed = ledger.claim(LANES, owner="w", attempt=attempt, now=2)
    assert claimed is not None
    return claimed


def end(ledger: Ledger, claimed: Claim) -> Any:
    return ledger.end(claimed.token, ENDED, now=3, luck=0.0, actor="test")


def wait_until(condition: Callable[[], bool]) -> None:
    """Nothing tells that a thread has joined the queue but the queue itself."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


def lie(monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> None:
    """The next commit takes place, and says that it failed."""
    pen = ledger._driver._writer._pen  # type: ignore[attr-defined]
    told = pen.execute

    def execute(sql: str, *values: object) -> object:
        if sql != "commit":
            return told(sql, *values)
        told("commit")
        raise apsw.IOError("injected")

    monkeypatch.setattr(pen, "execute", execute)


def test_failed_sync_leaves_a_commit_that_a_crash_would_bring_back(
    ledger: Ledger, disk: Any, submission: Submit, rows: Rows, rows_after_crash: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The danger is real: without the seal nobody sees the job, until the next recovery finds it in the WAL."""
    pen = ledger._driver._writer._pen  # type: ignore[attr-defined]
    monkeypatch.setattr(pen, "seal", lambda look: [False])
    disk.fail("sync", "wal", apsw.IOError, FSYNC)
    with pytest.raises(StoreFailed):
        ledger.submit(submission(1), now=1, actor="test")
    assert rows("select count(*) from job") == [[0]]
    assert rows_after_crash("select count(*) from job") == [[1]]


def test_what_was_not_made_never_appears(
    ledger: Ledger, disk: Any, submission: Submit, rows: Rows, rows_after_crash: Rows
) -> None:
    """After a failed sync the submit is refused as not made, and no crash brings the job back; the next one works."""
    disk.fail("sync", "wal", apsw.IOError, FSYNC, times=1)
    with pytest.raises(StoreFailed, match="the change was not made and will not appear"):
        ledger.submit(submission(1), now=1, actor="test")
    assert rows("select count(*) from job") == rows_after_crash("select count(*) from job") == [[0]]
    receipt = ledger.submit(submission(1), now=1, actor="test")
    assert not receipt.reused
    assert rows_after_crash("select count(*) from job") == [[1]]


@pytest.mark.parametrize(("call", "code"), [("sync", FSYNC), ("write", WRITE)])
def test_every_verb_of_a_worker_is_looked_into(
    ledger: Ledger, disk: Any, submission: Submit, rows_after_crash: Rows, call: str, code: int
) -> None:
    """Submit, claim, end and turn learn that nothing was made, and made again they take effect once."""
    steps: list[Callable[[], object]] = [
        lambda: ledger.submit(submission(1), now=1, actor="test"),
        lambda: claimed.append(claim(ledger)),
        lambda: end(ledger, claimed[0]),
        lambda: ledger.submit_many([submission(2), submission(3)], now=1, actor="test"),
        lambda: claimed.append(claim(ledger, "b")),
        lambda: ledger.turn([Ending(claimed[1].token, ENDED, 0.0)], LANES, ["c"], owner="w", now=4, actor="worker:w"),
    ]
    claimed: list[Claim] = []
    for step in steps:
        disk.fail(call, "wal", apsw.IOError, code, times=1)
        with pytest.raises(StoreFailed, match="the change was not made"):
            step()
        before = rows_after_crash("select count(*), coalesce(max(seq), 0) from history")
        step()
        assert rows_after_crash("select count(*), coalesce(max(seq), 0) from history") > before
    states = rows_after_crash("select state from job order by seq")
    assert states == [["COMPLETED"], ["COMPLETED"], ["RUNNING"]]
    assert rows_after_crash("select id from attempt order by id") == [["a"], ["b"], ["c"]]


def test_what_was_made_is_answered(
    ledger: Ledger, submission: Submit, rows_after_crash: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that took place but reported an error is found by reading back: the caller gets its answer."""
    lie(monkeypatch, ledger)
    assert ledger.submit(submission(1), now=1, actor="test").state is JobState.QUEUED
    lie(monkeypatch, ledger)
    claimed = claim(ledger)
    assert claimed.token.attempt == "a"
    lie(monkeypatch, ledger)
    assert end(ledger, claimed)[0].state is JobState.COMPLETED
    lie(monkeypatch, ledger)
    assert ledger.claim(LANES, owner="w", attempt="b", now=4) is None
    assert rows_after_crash("select state, (select count(*) from history) from job") == [["COMPLETED", 3]]


def test_what_was_made_is_copied_before_it_is_answered(
    ledger: Ledger, disk: Any, submission: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change whose sync failed is written and synced once more, in another place, before its caller is answered."""
    lie(monkeypatch, ledger)
    disk.calls.clear()
    ledger.submit(submission(1), now=1, actor="test")
    assert disk.calls[-1] == ("sync", "database")


def test_made_but_not_copied_is_unknown(
    ledger: Ledger, disk: Any, submission: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the database cannot be synced either, the caller is told that it is not known."""
    lie(monkeypatch, ledger)
    disk.fail("sync", "database", apsw.IOError, FSYNC)
    with pytest.raises(OutcomeUnknown):
        ledger.submit(submission(1), now=1, actor="test")
    disk.heal()
    assert ledger.submit(submission(1), now=1, actor="test").reused


def test_without_a_recheck_it_is_unknown(ledger: Ledger, disk: Any, submission: Submit) -> None:
    """A change that nobody can read back is neither claimed nor denied; the store works on."""
    ledger.submit(submission(1), now=1, actor="test")
    disk.fail("sync", "wal", apsw.IOError, FSYNC, times=1)
    driver = ledger._driver
    with pytest.raises(OutcomeUnknown, match="not known whether the change was made"):
        driver.write(lambda tx: tx.run("set_store_controls", paused=True, stopped=False))
    ledger.control("pause", None, now=1, actor="test")


@pytest.mark.parametrize("code", [FSYNC, WRITE])
def test_disk_that_goes_on_failing_leaves_it_unknown(
    ledger: Ledger, disk: Any, submission: Submit, rows_after_crash: Rows, code: int
) -> None:
    """While the disk fails nothing is claimed to be known; once it works, the same request is made exactly once."""
    disk.fail("write" if code == WRITE else "sync", "wal", apsw.IOError, code)
    with pytest.raises(OutcomeUnknown):
        ledger.submit(submission(1), now=1, actor="test")
    for _ in range(2):
        with pytest.raises((OutcomeUnknown, StoreFailed)):  # or refused before it begins
            ledger.submit(submission(1), now=1, actor="test")
    disk.heal()
    ledger.submit(submission(1), now=1, actor="test")
    assert rows_after_crash("select count(*) from job") == [[1]]


def test_reopening_that_fails_is_tried_again_by_the_next(ledger: Ledger, disk: Any, submission: Submit) -> None:
    """A connection that cannot be replaced at once is replaced before anybody writes again."""
    disk.fail("sync", "wal", apsw.IOError, FSYNC, times=1)
    pen = ledger._driver._writer._pen  # type: ignore[attr-defined]
    reopen = pen._reopen
    refusals: list[object] = []

    def refuse_once() -> apsw.Connection:
        if not refusals:
            refusals.append(None)
            raise StoreFailed("no descriptors")
        connection: apsw.Connection = reopen()
        return connection

    pen._reopen = refuse_once
    failed = pen._connection
    with pytest.raises(OutcomeUnknown):
        ledger.submit(submission(1), now=1, actor="test")
    assert pen._connection is failed
    assert not ledger.submit(submission(1), now=1, actor="test").reused
    assert pen._connection is not failed


def test_full_disk_at_the_commit_is_known(
    ledger: Ledger, disk: Any, submission: Submit, rows: Rows, rows_after_crash: Rows
) -> None:
    """Whichever write meets the full disk, the job is refused as not made, and no crash brings it back."""
    ledger.submit(submission(0), now=1, actor="test")
    for passes in range(40):
        disk.fail("write", "wal", apsw.FullError, 13, passes=passes)
        try:
            ledger.submit(submission(1), now=1, actor="test")
        except DiskLow:
            assert rows("select count(*) from job") == rows_after_crash("select count(*) from job") == [[1]]
        else:
            break
    assert passes > 4, "the commit of one job writes several pages"
    assert rows_after_crash("select count(*) from job") == [[2]]


@pytest.mark.parametrize("error", [apsw.IOError, apsw.CorruptError])
def test_fault_before_the_commit_is_known(
    ledger: Ledger, open_store: Open, disk: Any, submission: Submit, rows: Rows, error: type[apsw.Error]
) -> None:
    """A read that fails while the work begins or runs has changed nothing, and says so plainly."""
    other = Ledger(open_store())
    for passes in range(20):
        other.submit(submission(100 + passes), now=1, actor="test")  # whoever writes next must read all pages anew
        disk.fail("read", "wal", error, READ, passes=passes)
        try:
            ledger.submit(submission(passes), now=1, actor="test")
        except StoreFailed:
            assert rows("select count(*) from job") == [[passes + 1]]
        else:
            break
        disk.heal()
    assert passes > 2, "the work reads several pages"


def test_a_group_shares_the_truth(
    ledger: Ledger, disk: Any, submission: Submit, rows_after_crash: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers that share a failed commit are answered by what is there, also one that found a lost neighbour's job."""
    pen = ledger._driver._writer._pen  # type: ignore[attr-defined]
    inside, go = threading.Event(), threading.Event()
    answers: dict[int, object] = {}

    def hold_up() -> None:
        ledger._driver.write(lambda tx: (inside.set(), go.wait(10)), durable=False)

    def submit(n: int, key: str) -> None:
        wanted = msgspec.structs.replace(submission(n), key=key)
        try:
            answers[n] = ledger.submit(wanted, now=1, actor="test")
        except EngineError as error:
            answers[n] = error

    threads = [threading.Thread(target=hold_up)]
    threads[0].start()
    assert inside.wait(10)
    # The third has the key of the first with the same content: it would be told of a job that is then lost.
    for n, key in ((1, "k"), (2, "other"), (3, "k")):
        threads.append(threading.Thread(target=submit, args=(n, key)))
        threads[-1].start()
    wait_until(lambda: len(ledger._driver._writer._waiting) == 3)  # type: ignore[attr-defined]
    disk.fail("sync", "wal", apsw.IOError, FSYNC, times=1)
    go.set()
    for thread in threads:
        thread.join(30)
    assert all(isinstance(answer, StoreFailed) for answer in answers.values()), answers
    assert rows_after_crash("select count(*) from job") == [[0]]
    assert not pen._suspect


def test_busy_store_is_not_in_doubt(
    ledger: Ledger, open_store: Open, submission: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write lock that another connection holds is `StoreBusy`, naming the process, and nothing was changed."""
    other = open_store()
    monkeypatch.setattr(ledger._driver._writer, "_busy_s", 0.05)  # type: ignore[attr-defined]

    def hold(tx: object) -> None:
        with pytest.raises(StoreBusy, match=r"this process \(\d+\) held the write lock"):
            ledger.submit(submission(1), now=1, actor="test")

    other.write(hold)
    ledger.submit(submission(1), now=1, actor="test")


def test_waiting_is_bounded_for_everyone(ledger: Ledger, open_store: Open, submission: Submit) -> None:
    """However many callers wait behind a lock that is never let go, each is refused at its own deadline."""
    other = open_store()
    writer = ledger._driver._writer  # type: ignore[attr-defined]
    writer._busy_s = 0.2
    errors: list[StoreBusy] = []

    def submit(n: int) -> None:
        with pytest.raises(StoreBusy) as raised:
            ledger.submit(submission(n), now=1, actor="test")
        errors.append(raised.value)

    def hold(tx: object) -> float:
        threads = [threading.Thread(target=submit, args=(n,)) for n in range(20)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return time.monotonic() - started

    assert other.write(hold) < 2.0  # one after the other they would wait for 4 s
    assert len(errors) == 20


def words(ledger: Ledger, submission: Submit) -> dict[str, Callable[[], Any]]:
    """What may be said beside submits, claims and ends, on a ledger where each of them changes something."""
    ledger.submit(submission(1), now=1, actor="test")
    running = claim(ledger)
    ledger.submit(submission(2), now=1, actor="test")
    driver = ledger._driver
    notices = Notices(driver)
    notices.register("first", now=1)
    ledger.tell(submission(2).id, events.Cancel("because"), now=2, actor="test")
    ledger.submit(submission(3), now=2, actor="test")
    [notice] = notices.pending("first", 10)
    return {
        "tell": lambda: ledger.tell(submission(3).id, events.Pause("because"), now=5, actor="test"),
        "ask": lambda: ledger.tell(submission(1).id, events.Pause("because"), now=5, actor="test"),
        "settle": lambda: ledger.settle(running.token, events.Interrupted(Published.absent()), now=5, actor="test"),
        "control": lambda: ledger.control("pause", None, now=5, actor="test"),
        "add_queue": lambda: ledger.add_queue("another", 5),
        "progress": lambda: ledger.progress(running.token, 1, 2, "half", now=5),
        "join": lambda: Owners(driver).join(Owner("x", 2, "boot", "start"), now=5),
        "leave": lambda: Owners(driver).leave("w", now=5),
        "register": lambda: notices.register("second", now=5),
        "acknowledge": lambda: notices.acknowledge(notice),
    }


WORDS = ("tell", "ask", "settle", "control", "add_queue", "progress", "join", "leave", "register", "acknowledge")
EVERYTHING = (
    "select (select group_concat(state || revision) from job), (select paused from store), "
    "(select group_concat(name) from queue), (select group_concat(id || coalesce(left_at, '')) from owner), "
    "(select group_concat(name) from listener), (select count(*) from notice), (select max(seq) from history)"
)


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_found_out_about(
    ledger: Ledger, disk: Any, submission: Submit, rows_after_crash: Rows, word: str
) -> None:
    """A word whose commit failed is known not to stand, and never appears; said again, it is heard."""
    say = words(ledger, submission)[word]
    before = rows_after_crash(EVERYTHING)
    disk.fail("sync", "wal", apsw.IOError, FSYNC, times=1)
    with pytest.raises(StoreFailed, match="was not made and will not appear"):
        say()
    assert rows_after_crash(EVERYTHING) == before
    say()
    assert rows_after_crash(EVERYTHING) != before


@pytest.mark.parametrize("word", WORDS)
def test_every_word_that_stands_is_answered(
    ledger: Ledger, submission: Submit, rows_after_crash: Rows, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """A word whose commit failed and took place all the same is answered as said."""
    say = words(ledger, submission)[word]
    before = rows_after_crash(EVERYTHING)
    lie(monkeypatch, ledger)
    say()
    assert rows_after_crash(EVERYTHING) != before


@pytest.mark.parametrize("code", [FSYNC, WRITE])
@pytest.mark.parametrize("takes_place", [False, True])
def test_a_turn_in_doubt_is_read_back_once_the_disk_answers(
    ledger: Ledger,
    disk: Any,
    submission: Submit,
    rows_after_crash: Rows,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    takes_place: bool,
) -> None:
    """E-W3: by its attempt ids a turn is known to stand or not, and what was found is final, after a crash too."""
    ledger.submit(submission(1), now=1, actor="test")
    ended = Ending(claim(ledger).token, ENDED, 0.0)
    ledger.submit(submission(2), now=1, actor="test")
    made: list[Turn] = []
    if takes_place:
        lie(monkeypatch, ledger)
        disk.fail("sync", "database", apsw.IOError, FSYNC)
    else:
        disk.fail("write" if code == WRITE else "sync", "wal", apsw.IOError, code)
    with pytest.raises(OutcomeUnknown):
        ledger.turn([ended], LANES, ["b"], owner="w", now=3, actor="worker:w", made=made)
    for _ in range(2):
        with pytest.raises((OutcomeUnknown, StoreFailed)):
            ledger.stands([ended], made[0])
    disk.heal()
    stands = ledger.stands([ended], made[0])
    assert stands is takes_place
    found = rows_after_crash("select count(*), count(ended_at) from attempt")
    assert found == ([[2, 1]] if stands else [[1, 0]])
