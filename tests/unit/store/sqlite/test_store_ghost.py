"""A store whose files are replaced under it says so before it answers, and never writes again."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne.core.job import Submission
from perenne.errors import StoreFailed
from perenne.store.ledger import Ledger
from perenne.store.sqlite import inode, reading
from perenne.store.sqlite.driver import SQLiteDriver

Open = Callable[..., SQLiteDriver]
Submit = Callable[[int], Submission]


def remove(file: Path) -> None:
    file.rename(file.with_name("moved"))


def replace(file: Path) -> None:
    remove(file)
    shutil.copy(file.with_name("moved"), file)


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
@pytest.mark.parametrize(("harm", "said"), [(remove, "removed"), (replace, "replaced")])
def test_replaced_file_is_noticed_before_the_answer_r4_r5(
    path: Path, open_store: Open, submission: Submit, end: str, harm: Callable[[Path], None], said: str
) -> None:
    """A commit into a file that lost its name is an error that names the file; the writer then refuses for ever."""
    store = open_store()
    ledger = Ledger(store)
    ledger.submit(submission(1), now=1, actor="test")
    file = Path(f"{path}{end}")
    harm(file)
    with pytest.raises(StoreFailed, match=rf"{file} was {said} under us"):
        ledger.submit(submission(2), now=1, actor="test")
    os.replace(file.with_name("moved"), file)
    with pytest.raises(StoreFailed, match=rf"{file} was {said} under us"):
        ledger.submit(submission(3), now=1, actor="test")
    store.close()
    reopened = Ledger(open_store())
    reopened.submit(submission(4), now=1, actor="test")


def test_every_caller_of_the_group_is_told(path: Path, open_store: Open, submission: Submit) -> None:
    """Callers that share a commit into a replaced file all get the error; none is told that its job is safe."""
    ledger = Ledger(open_store())
    ledger.submit(submission(0), now=1, actor="test")
    replace(Path(f"{path}-wal"))
    together = threading.Barrier(8)
    answers: list[object] = []

    def submit(n: int) -> None:
        together.wait(10)
        try:
            answers.append(ledger.submit(submission(n), now=1, actor="test"))
        except StoreFailed as error:
            answers.append(error)

    threads = [threading.Thread(target=submit, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 8
    assert all(isinstance(answer, StoreFailed) for answer in answers)


@pytest.mark.parametrize("mode", ["read", "write"])
def test_reader_notices_too(path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    """A reader of a ledger that was replaced does not go on showing the old one."""
    monkeypatch.setattr(reading, "PROVED_S", 0.0)
    store = open_store(mode=mode)
    assert store.read(lambda tx: tx.one("read_store"))
    replace(path)
    with pytest.raises(StoreFailed, match="replaced under us"):
        store.read(lambda tx: tx.one("read_store"))


def test_link_that_leads_elsewhere_is_noticed(path: Path, tmp_path: Path, submission: Submit) -> None:
    """A ledger reached through a symbolic link is refused once the link leads to another file."""
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(path)
    shutil.copy(path, other)
    store = SQLiteDriver(link, workspace="11111111-1111-4111-8111-111111111111")
    ledger = Ledger(store)
    ledger.submit(submission(1), now=1, actor="test")
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(StoreFailed, match=rf"{link} was replaced under us"):
        ledger.submit(submission(2), now=1, actor="test")
    store.close()


def test_relative_path_may_be_left(path: Path, submission: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store opened by a relative path is no ghost after the process went to another folder."""
    monkeypatch.chdir(path.parent)
    store = SQLiteDriver(Path(path.name), workspace="11111111-1111-4111-8111-111111111111")
    monkeypatch.chdir("/")
    Ledger(store).submit(submission(1), now=1, actor="test")
    store.close()


def test_what_sqlite_does_itself_is_no_alarm(
    open_store: Open, submission: Submit, rows: Callable[[str], list[Any]]
) -> None:
    """Checkpoints, a truncated WAL and other processes that come and go leave the three files where they are."""
    store = open_store()
    ledger = Ledger(store)
    for n in range(5):
        ledger.submit(submission(n), now=1, actor="test")
        store._connection.wal_checkpoint(mode=3)
        assert rows("select count(*) from job") == [[n + 1]]
    open_store().close()
    ledger.submit(submission(9), now=1, actor="test")


def test_look_agrees_with_stat(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Device, inode and length are those of `stat`, also where there is no `statx`; a missing name raises as `stat`."""
    found = path.stat()
    name = os.fsencode(path)
    assert inode.look(name) == (found.st_dev, found.st_ino, found.st_size)
    with pytest.raises(FileNotFoundError):
        inode.look(name + b"-none")
    monkeypatch.setattr(inode, "_statx", None)
    assert inode.look(name) == (found.st_dev, found.st_ino, found.st_size)


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_a_folder_that_has_rested_is_still_watched(path: Path, open_store: Open, submission: Submit, end: str) -> None:
    """Where nothing changed for long the folder alone is looked at; a file replaced in it is noticed all the same."""
    os.utime(path.parent, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    ledger = Ledger(open_store())
    for number in range(40):
        ledger.submit(submission(number), now=1, actor="test")
    file = Path(f"{path}{end}")
    replace(file)
    with pytest.raises(StoreFailed, match=rf"{file} was replaced under us"):
        ledger.submit(submission(41), now=1, actor="test")


def test_a_folder_that_moved_is_noticed(path: Path, open_store: Open, submission: Submit) -> None:
    """A folder of the same files under another name is not the one whose name was opened."""
    os.utime(path.parent, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    ledger = Ledger(open_store())
    ledger.submit(submission(1), now=1, actor="test")
    other = path.parent.with_name("other")
    subprocess.run(["cp", "-r", str(path.parent), str(other)], check=True)
    path.parent.rename(path.parent.with_name("moved"))
    other.rename(path.parent)
    os.utime(path.parent, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    with pytest.raises(StoreFailed, match="was replaced under us"):
        ledger.submit(submission(2), now=1, actor="test")
