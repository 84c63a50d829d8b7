"""One call to the system fails once: who asked is told so in our words, is not blamed, and nothing stays of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Kind
from perenne.apps.evidence import places
from perenne.errors import DiskLow, InvalidInput, NotDurable, StoreFailed
from perenne.files import atomic, fresh, regular
from perenne.files.lock import Lock
from perenne.runtime import owner, wake
from perenne.store.sqlite.driver import SQLiteDriver

APP = App("trouble", [Kind("note", 1, lambda context, text: text, str)], queues={"default": 10})


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """From now on a call of `os` fails with this error, for paths that hold these words."""

    def fail(name: str, number: int, words: str = "") -> None:
        real = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            if words in str(given[0] if given else ""):
                raise OSError(number, os.strerror(number))
            return real(*given, **named)

        monkeypatch.setattr(os, name, call)

    return fail


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENFILE])
def test_a_file_that_the_machine_cannot_read_is_not_called_wrong(
    number: int, tmp_path: Path, fails: Callable[..., None]
) -> None:
    """An input error, or too many open files, is a fault of the store; only a wrong file is wrong input."""
    (tmp_path / "file").write_bytes(b"content")
    fails("open", number, "file")
    with pytest.raises(StoreFailed, match="try again") as raised:
        regular.read(tmp_path / "file", limit_bytes=100)
    assert raised.value.passing
    with pytest.raises(StoreFailed):
        list(fresh.lines(tmp_path / "file", limit_bytes=100))
    with pytest.raises(StoreFailed) as raised:
        places.read_below(tmp_path, "file", limit_bytes=100)
    assert raised.value.passing


def test_a_file_that_is_forbidden_stays_wrong_input(tmp_path: Path, fails: Callable[..., None]) -> None:
    """What is wrong with the file itself is told to whoever gave it."""
    (tmp_path / "file").write_bytes(b"content")
    fails("open", errno.EACCES, "file")
    with pytest.raises(InvalidInput, match="readable"):
        regular.read(tmp_path / "file", limit_bytes=100)


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, fails: Callable[..., None]) -> None:
    """Listing gives what stands there in order, or an error of ours."""
    for name in ("b.lock", "a.lock", "c.other"):
        (tmp_path / name).touch()
    assert [path.name for path in atomic.listed(tmp_path, "*.lock")] == ["a.lock", "b.lock"]
    fails("listdir", errno.EMFILE)
    with pytest.raises(StoreFailed, match="could not be listed"):
        atomic.listed(tmp_path)


def test_a_lock_needs_no_mode(tmp_path: Path, fails: Callable[..., None]) -> None:
    """A mode that cannot be changed keeps nobody from a lock."""
    fails("fchmod", errno.EROFS)
    lock = Lock.take(tmp_path / "lock")
    assert lock is not None
    lock.release()


def test_a_worker_lets_go_though_its_name_stays(tmp_path: Path, fails: Callable[..., None]) -> None:
    """A lock file that cannot be removed is let go of all the same."""
    made = perenne.create(tmp_path / "place", APP, name="place")
    holding = owner.take(made, alone=False)
    fails("unlink", errno.EROFS, ".lock")
    holding.release()
    assert not holding.locks[-1].held
    again = Lock.take(holding.locks[-1].path)
    assert again is not None
    again.release()


@pytest.mark.parametrize(("name", "number"), [("open", errno.EMFILE), ("rename", errno.EIO), ("mkfifo", errno.ENOSPC)])
def test_a_bell_that_cannot_be_hung_leaves_nothing(
    name: str, number: int, tmp_path: Path, fails: Callable[..., None]
) -> None:
    """No pipe and no descriptor stays of a bell that could not be made."""
    fails(name, number, str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((StoreFailed, DiskLow)):
        wake.Bell(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(tmp_path) == []


def test_a_bell_is_closed_though_its_pipe_stays(tmp_path: Path, fails: Callable[..., None]) -> None:
    """A pipe that cannot be removed is closed, and the next worker removes it."""
    bell = wake.Bell(tmp_path)
    descriptor = bell.fileno()
    fails("unlink", errno.EIO)
    bell.close()
    wake.remove_dead(tmp_path)
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)
    assert len(os.listdir(tmp_path)) == 1


def test_a_second_name_that_stays_undoes_nothing(tmp_path: Path, fails: Callable[..., None]) -> None:
    """A new file that has its name is not refused because its passing name could not be removed."""
    fails("unlink", errno.EIO)
    with fresh.writing(tmp_path / "file", protocol="export") as file:
        file.write(b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("step", ["write_manifest", "add_queue"])
def test_a_workspace_that_could_not_be_made_is_not_there(step: str, tmp_path: Path) -> None:
    """On an error no file of it is left, so that making it again works."""

    def fail(*given: Any, **named: Any) -> None:
        raise NotDurable("injected")

    with pytest.MonkeyPatch.context() as patched:
        target = perenne.files.workspace.Workspace if step == "write_manifest" else SQLiteDriver
        patched.setattr(target, "write_manifest" if step == "write_manifest" else "write", fail)
        with pytest.raises(NotDurable):
            perenne.create(tmp_path / "place", APP, name="place")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    perenne.create(tmp_path / "place", APP, name="place")
