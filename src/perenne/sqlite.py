"""The one way to open a SQLite file: guard, modes, pragmas read back, and errors in our own words.

What lives here: opening and explaining. What does not: SQL, schemas, transactions, retries, migration.
"""

from __future__ import annotations

import array
import contextlib
import os
import stat
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import apsw

from perenne.crashpoints import crash_point
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
)
from perenne.filesystem import refuse_unsafe

Mode = Literal["read", "write", "create"]
_OLDEST_LIBRARY = (3, 51, 3)
_HEADER = b"SQLite format 3\x00"
_COMPANIONS = ("-wal", "-shm", "-journal")
_SYNCHRONOUS = {"full": 2, "extra": 3}
_PAGE_BYTES = 2048  # of new files: a commit writes each page it touches whole, and most rows are short
_FULL_DISK_BYTES = 1 << 20  # below this an input or output error is taken for a full disk
_EFFECTIVE_IDS = os.access in os.supports_effective_ids


def open(
    path: Path,
    *,
    mode: Mode,
    journal: Literal["wal", "delete"] = "wal",
    synchronous: Literal["full", "extra"] = "full",
    busy_s: float = 0,
    allowed: Collection[str] = (),
    vfs: str | None = None,
) -> apsw.Connection:
    """A connection to one SQLite file, with every setting proved by reading it back.

    Args:
        path: symbolic links are followed, except that `create` never creates through one.
        mode: `create` makes the file (0600) and fails if anything has its name; `write` and `read` never create it.
        journal, synchronous: for `write` and `create`; `delete` with `full` may lose its last commit at a power cut.
        busy_s: how long a statement waits for the lock of another connection.
        allowed: unsafe file systems that the workspace accepts. vfs: name of a registered VFS, for tests.
    Raises:
        UnsafeFilesystem, StoreMissing, StoreExists, StoreForeign, StoreFailed, StoreBusy, DiskLow: nothing was changed.
        InvalidInput: the path cannot name a file.
    Guarantees:
        `-wal` and `-shm` stay for ever. A reader writes no byte of the database or its WAL and removes no file; it
        creates none either, as long as both exist. It works beside a writer, after its death, in a read-only folder.
    Danger: never open the file by other means in this process; closing any descriptor of it drops SQLite's locks.
    """
    _refuse_old_library()
    real = _real(path, follow=mode != "create")
    refuse_unsafe(real.parent, allowed=allowed)
    if mode != "read":
        _refuse_readonly(real.parent, real)
    if mode == "create":
        return _created(real, journal, synchronous, busy_s, vfs)
    _refuse_missing(real)
    if mode == "write":
        _refuse_readonly(real, real)
    with translated(real):
        _refuse_foreign(real, vfs)
        if mode == "read":
            return _reader(real, busy_s, vfs)
        return _writer(real, journal, synchronous, busy_s, vfs)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about the file into ours; errors about the SQL itself pass, for they are faults of ours."""
    try:
        yield
    except _EXPLAINED as error:
        raise explain(error, path) from error


def explain(error: apsw.Error, path: Path) -> EngineError:
    """Our error for one of SQLite's, naming the file and the next step; StoreFailed when it is of no known family.

    An error of a commit says nothing about whether it took place: reopen, and read back.
    """
    family, next_step = _family_of(error, path)
    return family(
        f"store {path}: {error}; {next_step}",
        path=str(path),
        reason=str(error),
        sqlite_error=type(error).__name__,
        sqlite_code=getattr(error, "extendedresult", None),
    )


def _family_of(error: apsw.Error, path: Path) -> tuple[type[EngineError], str]:
    if isinstance(error, apsw.IOError) and _is_full(path.parent):
        return DiskLow, "the disk is full; free space, then try again"
    for known, family, next_step in _FAMILIES:
        if isinstance(error, known):
            return family, next_step
    return StoreFailed, "this is a fault of the program; report it"


_FAMILIES: tuple[tuple[type[apsw.Error], type[EngineError], str], ...] = (
    (apsw.BusyError, StoreBusy, "another connection holds its lock; try again, or end the process that holds it"),
    (apsw.ProtocolError, StoreBusy, "other connections were opening it at the same moment; try again"),
    (apsw.FullError, DiskLow, "free space on its disk, then try again"),
    (apsw.ReadOnlyError, StoreFailed, "it may not be written, or lacks -wal and -shm; open it once for writing"),
    (apsw.CantOpenError, StoreFailed, "check its permissions; a read-only one needs -wal and -shm beside it"),
    (apsw.PermissionsError, StoreFailed, "check its permissions"),
    (apsw.NotADBError, StoreFailed, "its content is not that of a SQLite file; restore a backup"),
    (apsw.CorruptError, StoreFailed, "it is damaged; restore a backup"),
    (apsw.IOError, StoreFailed, "check the disk, then open it again and read back what was committed"),
)
_EXPLAINED = tuple(known for known, _, _ in _FAMILIES)


def _refuse_old_library() -> None:
    found = apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < _OLDEST_LIBRARY:
        oldest = ".".join(str(part) for part in _OLDEST_LIBRARY)
        raise StorageError(
            f"SQLite {found} is older than {oldest} and can lose commits when a WAL is reset while another connection "
            f"writes; install a newer apsw",
            found=found,
            oldest=oldest,
        )


def _real(path: Path, *, follow: bool) -> Path:
    try:
        if b"\0" in str(path).encode():
            raise ValueError("it holds a null byte")
        return Path(os.path.realpath(path)) if follow else Path(os.path.realpath(path.parent), path.name)
    except ValueError as error:
        raise InvalidInput(f"path {str(path)!r} cannot name a store: {error}; rename it", path=str(path)) from error


def _refuse_missing(path: Path) -> None:
    try:
        found = os.stat(path)
    except OSError as error:
        raise StoreMissing(
            f"store {path} cannot be found ({error.strerror}); it is never created silently: "
            f"check the path, or restore a backup",
            path=str(path),
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreMissing(f"store {path} is not a regular file; check the path", path=str(path))


def _refuse_readonly(place: Path, path: Path) -> None:
    if place.exists() and not os.access(place, os.W_OK, effective_ids=_EFFECTIVE_IDS):
        what = "the file" if place == path else f"its folder {place}"
        raise StoreFailed(
            f"store {path} cannot be opened for writing: {what} is read-only; "
            f"give write permission, mount it for writing, or only read",
            path=str(path),
            readonly=str(place),
        )


def _refuse_foreign(path: Path, vfs: str | None) -> None:
    """Read the header through SQLite's own descriptors: closing one of ours would drop the locks of this process."""
    file = apsw.VFSFile(vfs or "", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        header = file.xRead(len(_HEADER), 0)
    finally:
        file.xClose()
    if header == _HEADER:
        return
    what = "is not a SQLite file" if header else "is empty: its creation was interrupted, or something cut it"
    raise StoreForeign(f"store {path} {what}; check the path, move it away, or restore a backup", path=str(path))


def _created(path: Path, journal: str, synchronous: str, busy_s: float, vfs: str | None) -> apsw.Connection:
    files = [path.with_name(path.name + end) for end in ("", *_COMPANIONS)]
    for name in files:
        if os.path.lexists(name):
            raise StoreExists(f"store {path} cannot be created: {name} exists; move it away first", path=str(path))
    _make_file(path)
    try:
        with translated(path):
            connection = _writer(path, journal, synchronous, busy_s, vfs)
            crash_point("create.store_formatted")
            with _closed_on_failure(connection):
                connection.pragma("user_version", 0)  # a first commit: header and folder are synced in either mode
                crash_point("create.store_made")
    except BaseException:
        for name in files:
            with contextlib.suppress(OSError):
                name.unlink()
        raise
    return connection


def _make_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise StoreExists(f"store {path} cannot be created: it exists; move it away first", path=str(path)) from error
    except FileNotFoundError as error:
        raise StoreMissing(f"store {path} cannot be created: its folder is missing; make it", path=str(path)) from error
    except OSError as error:
        raise StoreFailed(
            f"store {path} cannot be created: {error.strerror}; check its folder", path=str(path)
        ) from error
    with contextlib.suppress(OSError):  # it has this mode already, unless the umask takes more away
        os.fchmod(descriptor, 0o600)
    os.close(descriptor)


def _writer(path: Path, journal: str, synchronous: str, busy_s: float, vfs: str | None) -> apsw.Connection:
    with _closed_on_failure(_connected(path, apsw.SQLITE_OPEN_READWRITE, busy_s, vfs)) as connection:
        if connection.readonly("main"):
            raise StoreFailed(f"store {path} could only be opened for reading; check its permissions", path=str(path))
        if not os.path.getsize(path):
            _require(connection, path, "page_size", _PAGE_BYTES, _PAGE_BYTES)
        if journal == "wal":
            _keep_wal(connection, path)
        _require(connection, path, "journal_mode", journal, journal)
        _require(connection, path, "synchronous", synchronous, _SYNCHRONOUS[synchronous])
        if sys.platform == "darwin":
            _require(connection, path, "fullfsync", 1, 1)
            _require(connection, path, "checkpoint_fullfsync", 1, 1)
        connection.pragma("schema_version")  # what is wrong is met here, and -wal and -shm exist from now on
    return connection


def _reader(path: Path, busy_s: float, vfs: str | None) -> apsw.Connection:
    with _closed_on_failure(_connected(path, apsw.SQLITE_OPEN_READONLY, busy_s, vfs)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _require(connection, path, "query_only", 1, 1)
        connection.pragma("schema_version")  # what is wrong with the file is met here
    return connection


def _connected(path: Path, access: int, busy_s: float, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=access | apsw.SQLITE_OPEN_NOFOLLOW, vfs=vfs)
    with _closed_on_failure(connection):
        connection.set_busy_timeout(round(busy_s * 1000))
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else a query is prepared anew for each new value
        for name, value in (("foreign_keys", 1), ("mmap_size", 0)):
            _require(connection, path, name, value, value)
    return connection


def _keep_wal(connection: apsw.Connection, path: Path) -> None:
    """Persistent WAL: the last to leave removes neither -wal nor -shm."""
    value = array.array("i", [1])  # named, because SQLite writes to its memory
    taken = connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, value.buffer_info()[0])
    asked = array.array("i", [-1])
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, asked.buffer_info()[0])
    if not taken or asked[0] != 1:
        raise StoreFailed(f"store {path}: persistent WAL did not take; use the default VFS", path=str(path))


def _require(connection: apsw.Connection, path: Path, name: str, value: str | int, wanted: str | int) -> None:
    connection.pragma(name, value)
    found = connection.pragma(name)
    if found != wanted:
        raise StoreFailed(
            f"store {path}: setting {name}={value} did not take, SQLite says {found!r}; "
            f"close its other connections, or use another file system",
            path=str(path),
            setting=name,
            wanted=wanted,
            found=found,
        )


@contextlib.contextmanager
def _closed_on_failure(connection: apsw.Connection) -> Iterator[apsw.Connection]:
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _is_full(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize < _FULL_DISK_BYTES
    return False
