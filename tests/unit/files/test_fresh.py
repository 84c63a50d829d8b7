"""A file that is new appears whole under its name, or not at all, and never takes the place of another."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne import crashpoints
from perenne.errors import DiskLow, InvalidInput, StoreExists, StoreFailed
from perenne.files import atomic, fresh

POINTS = ["export.staged", "export.renamed", "export.folder_synced", "export.leftover_removed"]


def write(path: Path, *pieces: bytes) -> None:
    with fresh.writing(path, protocol="export") as file:
        for piece in pieces:
            file.write(piece)


def test_written_in_pieces_and_private(tmp_path: Path) -> None:
    """What was written in pieces stands under the name, 0600, with nothing beside it; digest and size are known."""
    path = tmp_path / "new"
    with fresh.writing(path, protocol="export") as file:
        file.write(b"one")
        assert not path.exists()
        file.write(b"two")
        assert (file.sha256, file.size_bytes) == (hashlib.sha256(b"onetwo").hexdigest(), 6)
    assert path.read_bytes() == b"onetwo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("there", ["file", "folder", "link to nowhere"])
def test_never_takes_a_place(tmp_path: Path, there: str) -> None:
    """Whatever has the name keeps it, and nothing is written."""
    path = tmp_path / "taken"
    {
        "file": lambda: path.write_bytes(b"mine"),
        "folder": path.mkdir,
        "link to nowhere": lambda: path.symlink_to("nowhere"),
    }[there]()
    with pytest.raises(StoreExists, match="never overwritten"):
        write(path, b"x")
    assert os.listdir(tmp_path) == ["taken"]


def test_name_taken_meanwhile_is_kept(tmp_path: Path) -> None:
    """Something that took the name while the file was written keeps it, and no stage is left."""
    path = tmp_path / "taken"

    def meet() -> None:
        with fresh.writing(path, protocol="export") as file:
            file.write(b"x")
            path.write_bytes(b"mine")

    with pytest.raises(StoreExists):
        meet()
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["taken"]


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP])
@pytest.mark.parametrize("taken", [False, True])
def test_file_system_without_second_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, taken: bool
) -> None:
    """Where a file cannot have two names it is renamed, after a look that nothing has the name."""
    path = tmp_path / "new"

    def no_link(*names: object, **values: object) -> None:
        if taken:
            path.write_bytes(b"mine")
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", no_link)
    if taken:
        with pytest.raises(StoreExists):
            write(path, b"x")
    else:
        write(path, b"x")
    assert path.read_bytes() == (b"mine" if taken else b"x")
    assert os.listdir(tmp_path) == ["new"]


def test_missing_folder_and_impossible_name(tmp_path: Path) -> None:
    """A missing folder is named with the next step, and so is a name that cannot be one."""
    with pytest.raises(StoreFailed, match="folder is missing"):
        write(tmp_path / "missing" / "new", b"x")
    with pytest.raises(InvalidInput, match="cannot name a file"):
        write(tmp_path / "a\0b", b"x")


def test_error_of_the_caller_leaves_nothing(tmp_path: Path) -> None:
    """When what writes fails, the error passes and neither a name nor a stage is left."""

    def fail() -> None:
        with fresh.writing(tmp_path / "new", protocol="export") as file:
            file.write(b"x")
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("call", "code", "family"),
    [
        ("open", errno.EACCES, StoreFailed),
        ("open", errno.EMFILE, StoreFailed),
        ("open", errno.ENOSPC, DiskLow),
        ("fsync", errno.EIO, StoreFailed),
        ("fsync", errno.EDQUOT, DiskLow),
        ("link", errno.EIO, StoreFailed),
        ("fchmod", errno.EROFS, StoreFailed),
    ],
)
def test_failing_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, family: type[Exception]
) -> None:
    """An error of any call is told in our words with the path, and leaves neither a name nor a stage."""
    path = tmp_path / "new"

    def fail(*values: object, **named: object) -> Any:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(family, match=str(path)) as failed:
            write(path, b"x" * 100)
    assert "then try again" in str(failed.value)
    assert os.listdir(tmp_path) == []


def test_short_and_failing_writes(tmp_path: Path) -> None:
    """A disk that is full in the middle of the writing is told as such, and nothing is left."""
    limit = Path("/dev/full")
    if not limit.exists():
        pytest.skip("/dev/full is absent")
    with pytest.raises(DiskLow), atomic.explained(tmp_path / "new", "written"), open(limit, "wb") as file:
        file.write(b"x" * (2 << 20))


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_point(tmp_path: Path, point: str) -> None:
    """Killed at any point, the name is absent or stands for the whole file; at most one stage is left beside it."""
    path = tmp_path / "new"
    assert _dies(point, lambda: write(path, b"one", b"two"))
    assert path.exists() == (point != "export.staged")
    if path.exists():
        assert path.read_bytes() == b"onetwo"
        path.unlink()
    assert len(os.listdir(tmp_path)) == (0 if point == "export.leftover_removed" else 1)
    write(path, b"again")
    assert path.read_bytes() == b"again"


@pytest.mark.parametrize("point", POINTS)
def test_failing_at_each_point(tmp_path: Path, point: str) -> None:
    """An error at any point leaves no stage; the name is absent or stands for the whole file."""

    def observer(name: str) -> None:
        if name == point:
            raise RuntimeError("injected")

    crashpoints.observe(observer)
    try:
        with pytest.raises(RuntimeError, match="injected"):
            write(tmp_path / "new", b"onetwo")
    finally:
        crashpoints.observe(None)
    assert os.listdir(tmp_path) == ([] if point == "export.staged" else ["new"])


def test_durable_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it has its name, and its folder after that."""
    seen: list[str] = []
    flush, link = atomic.flush, os.link

    def noted_flush(descriptor: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        flush(descriptor)

    def noted_link(*names: Any, **values: Any) -> None:
        seen.append("name")
        link(*names, **values)

    monkeypatch.setattr(atomic, "flush", noted_flush)
    monkeypatch.setattr(os, "link", noted_link)
    write(tmp_path / "new", b"x")
    assert seen == ["file", "name", "folder"]


def test_lines_with_their_ends(tmp_path: Path) -> None:
    """Lines come one at a time with their ends; a longer one than the limit is cut, and the last may lack its end."""
    path = tmp_path / "text"
    path.write_bytes(b"one\n\nthree three\nfour")
    assert list(fresh.lines(path, limit_bytes=8)) == [b"one\n", b"\n", b"three th", b"ree\n", b"four"]


@pytest.mark.parametrize("there", ["nothing", "folder", "link", "pipe", "unreadable"])
def test_only_regular_files_are_read(tmp_path: Path, there: str) -> None:
    """A name that is no regular file is refused at once; nothing is waited for or followed."""
    path = tmp_path / "name"
    (tmp_path / "text").write_bytes(b"x")
    {
        "nothing": lambda: None,
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(tmp_path / "text"),
        "pipe": lambda: os.mkfifo(path),
        "unreadable": lambda: (path.write_bytes(b""), path.chmod(0)),
    }[there]()
    if there == "unreadable" and os.geteuid() == 0:
        pytest.skip("root reads everything")
    with pytest.raises(InvalidInput, match="regular file"):
        list(fresh.lines(path, limit_bytes=8))
    with pytest.raises(InvalidInput, match="cannot name a file"):
        list(fresh.lines(tmp_path / "a\0b", limit_bytes=8))


def _dies(point: str, work: Callable[[], object]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            crashpoints.arm({crashpoints.VARIABLE: point}, specimen=True)
            work()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
