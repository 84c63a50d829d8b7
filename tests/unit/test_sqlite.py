"""Opening a SQLite file: the guard first, every setting proved, nothing created or changed by accident."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne import sqlite
from perenne.errors import (
    DiskLow,
    EngineError,
    InvalidInput,
    StorageError,
    StoreBusy,
    StoreExists,
    StoreFailed,
    StoreForeign,
    StoreMissing,
    UnsafeFilesystem,
)

NAMES = ["store.sqlite", "store.sqlite-shm", "store.sqlite-wal"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one table and one row, closed."""
    path = tmp_path / "store.sqlite"
    connection = sqlite.open(path, mode="create")
    connection.execute("create table fact (n integer); insert into fact values (1)")
    connection.close()
    return path


def contents_of(folder: Path) -> dict[str, object]:
    """Every name in the folder with its link target or bytes."""
    return {
        entry.name: os.readlink(entry) if entry.is_symlink() else entry.read_bytes() if entry.is_file() else "other"
        for entry in folder.iterdir()
    }


def value_of(connection: apsw.Connection, sql: str) -> Any:
    return connection.execute(sql).get


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_created_files_are_private_and_stay(tmp_path: Path, umask: int) -> None:
    """A new store, its WAL and its shared memory are 0600 whatever the umask, and all three outlive the connection."""
    before = os.umask(umask)
    try:
        sqlite.open(tmp_path / "store.sqlite", mode="create").close()
    finally:
        os.umask(before)
    assert sorted(os.listdir(tmp_path)) == NAMES
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in NAMES} == {0o600}


def test_rollback_journal_leaves_one_file(tmp_path: Path) -> None:
    """With the rollback journal a new store is one file that can be opened again before anything was written to it."""
    for mode in ("create", "write", "read"):
        connection = sqlite.open(tmp_path / "store.sqlite", mode=mode, journal="delete", synchronous="extra")
        assert value_of(connection, "pragma journal_mode") == "delete"
        connection.close()
        assert os.listdir(tmp_path) == ["store.sqlite"]


@pytest.mark.parametrize("mode", ["create", "write"])
@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize(("synchronous", "number"), [("full", 2), ("extra", 3)])
def test_writers_have_every_setting(tmp_path: Path, mode: Any, journal: Any, synchronous: Any, number: int) -> None:
    """Each writing connection has foreign keys, its journal, its sync level and no memory map."""
    sqlite.open(tmp_path / "x", mode="create").close()
    name = tmp_path / ("x" if mode == "write" else "y")
    connection = sqlite.open(name, mode=mode, journal=journal, synchronous=synchronous)
    assert connection.pragma("foreign_keys") == 1
    assert connection.pragma("journal_mode") == journal
    assert connection.pragma("synchronous") == number
    assert connection.pragma("mmap_size") == 0
    assert not connection.readonly("main")
    connection.close()


def test_readers_have_every_setting(path: Path) -> None:
    """Each reading connection is read-only twice over, checks foreign keys and never checkpoints when it closes."""
    connection = sqlite.open(path, mode="read")
    assert connection.readonly("main")
    assert connection.pragma("query_only") == 1
    assert connection.pragma("foreign_keys") == 1
    assert connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1) == 1
    with pytest.raises(StoreFailed, match=r"may not be written"), sqlite.translated(path):
        connection.execute("insert into fact values (2)")
    connection.close()


def test_rows_are_kept_across_connections(path: Path) -> None:
    """What one connection committed, the next one reads; a reader sees later commits too."""
    writer = sqlite.open(path, mode="write")
    reader = sqlite.open(path, mode="read")
    writer.execute("insert into fact values (2)")
    assert value_of(reader, "select sum(n) from fact") == 3
    writer.close()
    reader.close()
    assert value_of(sqlite.open(path, mode="read"), "select sum(n) from fact") == 3


@pytest.mark.parametrize("mode", ["write", "create"])
def test_setting_that_does_not_take_is_refused(path: Path, mode: Any) -> None:
    """A VFS that cannot share memory cannot have a WAL: that is an error, and a file made for it is removed again."""
    name = path if mode == "write" else path.with_name("new")
    sqlite.open(path, mode="write", journal="delete").close()
    before = contents_of(path.parent)
    with pytest.raises(StoreFailed, match=r"setting journal_mode=wal did not take, SQLite says 'delete'"):
        sqlite.open(name, mode=mode, vfs="unix-dotfile")
    assert contents_of(path.parent) == before


def test_sync_level_is_read_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When SQLite answers with another sync level than the one asked for, the store is not opened."""
    monkeypatch.setitem(sqlite._SYNCHRONOUS, "full", 7)
    with pytest.raises(StoreFailed, match=r"setting synchronous=full did not take, SQLite says 2"):
        sqlite.open(path, mode="write")


@pytest.mark.parametrize("version", ["3.40.1", "3.50.7", "3.51.2"])
@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_old_library_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch, version: str, mode: Any) -> None:
    """A SQLite with the WAL-reset race opens nothing, and the sentence says why and what to do."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(
        StorageError, match=rf"SQLite {version} is older than 3\.51\.3 and can lose commits.*newer apsw"
    ):
        sqlite.open(path, mode=mode)


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0"])
def test_new_library_is_accepted(path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """The first version without the race, and every later one, opens."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    sqlite.open(path, mode="read").close()


@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_guard_comes_before_any_touch(path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    """On an unsafe file system nothing is opened or created, whatever the mode; the allowed names reach the guard."""
    asked: list[tuple[Path, list[str]]] = []

    def refuse(folder: Path, *, allowed: list[str]) -> None:
        asked.append((folder, allowed))
        raise UnsafeFilesystem

    def never(*_: object, **__: object) -> None:
        raise AssertionError("touched")

    before = contents_of(path.parent)
    monkeypatch.setattr(sqlite, "refuse_unsafe", refuse)
    with monkeypatch.context() as untouchable:
        for owner, name in ((os, "open"), (apsw, "Connection"), (apsw, "VFSFile")):
            untouchable.setattr(owner, name, never)
        with pytest.raises(UnsafeFilesystem):
            sqlite.open(path.with_name("x") if mode == "create" else path, mode=mode, allowed=["foofs"])
    assert asked == [(path.parent, ["foofs"])]
    assert contents_of(path.parent) == before


@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_unsafe_folder_of_this_machine_is_refused(mode: Any) -> None:
    """A folder on proc is refused by name."""
    with pytest.raises(UnsafeFilesystem, match=r"stands on proc"):
        sqlite.open(Path("/proc/store.sqlite"), mode=mode)


def make_dangling(place: Path) -> None:
    place.symlink_to(place.with_name("nowhere"))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("store.sqlite", Path.touch),
        ("store.sqlite", Path.mkdir),
        ("store.sqlite", make_dangling),
        ("store.sqlite-wal", Path.touch),
        ("store.sqlite-shm", Path.touch),
        ("store.sqlite-journal", Path.touch),
    ],
)
def test_create_replaces_nothing(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    """Anything with the name of the store, or of its companions, refuses creation and stays as it is."""
    make(tmp_path / name)
    before = contents_of(tmp_path)
    with pytest.raises(StoreExists, match=rf"{name} exists"):
        sqlite.open(tmp_path / "store.sqlite", mode="create")
    assert contents_of(tmp_path) == before


def test_create_loses_a_race_cleanly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that appears between looking and creating is not taken over."""
    (tmp_path / "store.sqlite").write_bytes(b"theirs")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(StoreExists):
        sqlite.open(tmp_path / "store.sqlite", mode="create")
    assert contents_of(tmp_path) == {"store.sqlite": b"theirs"}


def test_create_in_a_missing_folder_names_it(tmp_path: Path) -> None:
    """A missing folder is not made silently."""
    with pytest.raises(StoreMissing, match=r"its folder is missing"):
        sqlite.open(tmp_path / "none" / "store.sqlite", mode="create")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("make", [None, Path.mkdir, make_dangling, os.mkfifo], ids=["absent", "folder", "link", "pipe"])
def test_missing_store_is_never_created(tmp_path: Path, mode: Any, make: Callable[[Path], None] | None) -> None:
    """What is not there, or is no regular file, is missing; nothing is created."""
    if make is not None:
        make(tmp_path / "store.sqlite")
    before = contents_of(tmp_path)
    with pytest.raises(StoreMissing, match=r"check the path"):
        sqlite.open(tmp_path / "store.sqlite", mode=mode)
    assert contents_of(tmp_path) == before


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"SQLite format 3", b"SQLite format 4\0", b"mail " * 1000],
    ids=["empty", "1", "15", "16", "5000"],
)
def test_foreign_file_is_refused_untouched(tmp_path: Path, mode: Any, data: bytes) -> None:
    """A file with another header is refused, and neither it nor what stands beside it changes."""
    path = tmp_path / "store.sqlite"
    path.write_bytes(data)
    path.with_name("store.sqlite-journal").write_bytes(b"theirs")
    path.with_name("store.sqlite-wal").write_bytes(b"theirs")
    before = contents_of(tmp_path)
    with pytest.raises(StoreForeign, match=r"is not a SQLite file" if data else r"is empty"):
        sqlite.open(path, mode=mode)
    assert contents_of(tmp_path) == before


@pytest.mark.parametrize("mode", ["read", "write"])
def test_damaged_file_is_reported(tmp_path: Path, mode: Any) -> None:
    """A file with the right header and nothing right behind it fails with the operator's error."""
    (tmp_path / "store.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(StoreFailed, match=r"store\.sqlite: .*; .*restore a backup"):
        sqlite.open(tmp_path / "store.sqlite", mode=mode)


@pytest.mark.parametrize("name", ["a\0b", "a\udcffb"], ids=["nul", "no utf-8"])
@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_impossible_names_are_refused(tmp_path: Path, name: str, mode: Any) -> None:
    """A name that SQLite cannot take is invalid input and no bare error."""
    with pytest.raises(InvalidInput, match=r"cannot name a store"):
        sqlite.open(tmp_path / name, mode=mode)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "with space", "ünï"])
def test_special_names_are_plain_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A name that SQLite could read as a command is just the name of a file, also when it is relative."""
    monkeypatch.chdir(tmp_path)
    sqlite.open(Path(name), mode="create").close()
    sqlite.open(Path(name), mode="read").close()
    assert (tmp_path / name).stat().st_size > 0


def test_link_leads_to_the_real_store(path: Path, tmp_path: Path) -> None:
    """Through a link the real store is opened, with its own WAL, and nothing appears beside the link."""
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "other.sqlite"
    link.symlink_to(path)
    writer = sqlite.open(link, mode="write")
    writer.execute("insert into fact values (5)")
    assert value_of(sqlite.open(path, mode="read"), "select sum(n) from fact") == 6
    writer.close()
    assert os.listdir(tmp_path / "links") == ["other.sqlite"]


def test_link_is_guarded_by_where_it_leads(tmp_path: Path) -> None:
    """A link into an unsafe file system is judged there."""
    (tmp_path / "link").symlink_to("/proc/version")
    with pytest.raises(UnsafeFilesystem, match=r"stands on proc"):
        sqlite.open(tmp_path / "link", mode="read")


SHARED_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)  # the shared range of the SQLite file format
    except OSError:
        print("held")
    else:
        print("free")
"""


def shared_lock_of(path: Path) -> str:
    """Whether another process sees SQLite's shared lock on the store, which keeps it from ending the WAL under us."""
    done = subprocess.run([sys.executable, "-c", SHARED_LOCK, str(path)], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr


def test_second_opening_keeps_the_locks_of_the_first(path: Path) -> None:
    """Opening and closing the same file again in this process does not drop the locks that protect the first one."""
    first = sqlite.open(path, mode="write")
    for mode in ("read", "write"):
        sqlite.open(path, mode=mode).close()
        with pytest.raises(StoreExists):
            sqlite.open(path, mode="create")
    assert shared_lock_of(path) == "held"
    first.close()
    assert shared_lock_of(path) == "free"


def test_busy_store_is_told(path: Path) -> None:
    """A store whose lock another connection holds is busy, and the message names it."""
    sqlite.open(path, mode="write", journal="delete").close()
    holder = sqlite.open(path, mode="write", journal="delete")
    holder.execute("begin immediate")
    with pytest.raises(StoreBusy, match=r"store\.sqlite: .*locked"):
        sqlite.open(path, mode="write", busy_s=0.01)
    holder.execute("rollback")
    sqlite.open(path, mode="write", busy_s=0.01).close()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_waiting_time_is_kept_by_the_connection(path: Path, mode: Any) -> None:
    """Each statement waits for a lock as long as it was told at opening; untold, not at all."""
    assert sqlite.open(path, mode=mode, busy_s=2.5).pragma("busy_timeout") == 2500
    assert sqlite.open(path, mode=mode).pragma("busy_timeout") == 0


def test_connection_moves_between_threads(path: Path) -> None:
    """A connection opened in one thread works in another."""
    opened: list[apsw.Connection] = []
    thread = threading.Thread(target=lambda: opened.append(sqlite.open(path, mode="write")))
    thread.start()
    thread.join(60)
    opened[0].execute("insert into fact values (2)")
    assert value_of(opened[0], "select count(*) from fact") == 2


READONLY = """
import sys
from pathlib import Path
from perenne import errors, sqlite
for mode, name in (("write", "store.sqlite"), ("create", "new.sqlite")):
    try:
        sqlite.open(Path(sys.argv[1], name), mode=mode)
    except errors.StorageError as error:
        print(error.code, error)
"""
FREEZE = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def test_readonly_folder_is_one_clear_error(path: Path) -> None:
    """Opening for writing in a read-only folder names the folder and the ways out, and changes nothing."""
    if os.geteuid() != 0:
        path.parent.chmod(0o500)
        command = []
    elif shutil.which("unshare") and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
        command = ["unshare", "-m", "--propagation", "private", "sh", "-c", FREEZE, "sh", str(path.parent)]
    else:
        pytest.skip("NOT CHECKED: permission bits do not bind root, and `unshare -m` is not allowed here")
    before = contents_of(path.parent)
    done = subprocess.run(
        [*command, sys.executable, "-c", READONLY, str(path.parent)], capture_output=True, text=True, timeout=60
    )
    path.parent.chmod(0o700)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    for line, name in zip(lines, ("store.sqlite", "new.sqlite"), strict=True):
        assert line == (
            f"store_failed store {path.with_name(name)} cannot be opened for writing: its folder {path.parent} is "
            f"read-only; give write permission, mount it for writing, or only read"
        )
    assert contents_of(path.parent) == before


def test_readonly_file_is_one_clear_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be written is told apart from its folder."""
    monkeypatch.setattr(os, "access", lambda place, *_, **__: place != path)
    with pytest.raises(StoreFailed, match=r"opened for writing: the file is read-only"):
        sqlite.open(path, mode="write")


@pytest.mark.parametrize(
    ("error", "family", "next_step"),
    [
        (apsw.BusyError, StoreBusy, "try again"),
        (apsw.ProtocolError, StoreBusy, "try again"),
        (apsw.FullError, DiskLow, "free space"),
        (apsw.ReadOnlyError, StoreFailed, "open it once for writing"),
        (apsw.CantOpenError, StoreFailed, "permissions"),
        (apsw.PermissionsError, StoreFailed, "permissions"),
        (apsw.NotADBError, StoreFailed, "backup"),
        (apsw.CorruptError, StoreFailed, "backup"),
        (apsw.IOError, StoreFailed, "check the disk"),
        (apsw.MisuseError, StoreFailed, "report it"),
    ],
)
def test_errors_are_explained(path: Path, error: type[apsw.Error], family: type[EngineError], next_step: str) -> None:
    """Each error of SQLite becomes ours, with the file, the reason and the next step."""
    explained = sqlite.explain(error("the reason"), path)
    assert type(explained) is family
    assert str(path) in str(explained)
    assert "the reason" in str(explained)
    assert next_step in str(explained)
    assert explained.sqlite_error == error.__name__


def test_io_error_on_a_full_disk_is_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input or output error is blamed on the disk's space when there is none; without an answer it is not."""

    def full(_: Path) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 1000, 10, 10, 0, 0, 0, 0, 255))

    def no_answer(_: Path) -> os.statvfs_result:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "statvfs", full)
    assert type(sqlite.explain(apsw.IOError("disk I/O error"), path)) is DiskLow
    monkeypatch.setattr(os, "statvfs", no_answer)
    assert type(sqlite.explain(apsw.IOError("disk I/O error"), path)) is StoreFailed


def test_real_errors_are_translated(path: Path) -> None:
    """A store that may not grow is low on disk, with SQLite's error as the cause and its code as a fact."""
    connection = sqlite.open(path, mode="write")
    connection.pragma("max_page_count", 3)
    with pytest.raises(DiskLow) as caught, sqlite.translated(path):
        connection.execute("insert into fact select zeroblob(1000000)")
    assert isinstance(caught.value.__cause__, apsw.FullError)
    assert caught.value.sqlite_code == apsw.SQLITE_FULL


@pytest.mark.parametrize(
    ("sql", "error"),
    [("select nothing from nowhere", apsw.SQLError), ("insert into k values (1)", apsw.ConstraintError)],
)
def test_faults_of_the_sql_pass(path: Path, sql: str, error: type[apsw.Error]) -> None:
    """An error that is about the statement and not about the file is not dressed up as a fault of the file."""
    connection = sqlite.open(path, mode="write")
    connection.execute("create table k (n integer primary key); insert into k values (1)")
    with pytest.raises(error), sqlite.translated(path):
        connection.execute(sql)
