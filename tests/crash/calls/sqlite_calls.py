"""The calls that SQLite makes: those of its file layer to the system, its syncs, and the statements it is told.

The calls to the system are exchanged in SQLite's own table (`xSetSystemCall`), so that a fault comes from where it
would come from; syncs are not in that table, and are exchanged in its file methods. No Python stands between two
layers of SQLite: what it swallows stays swallowed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
from collections.abc import Callable
from typing import Any

import apsw

from calls.watch import AFTER, Watch, die, file_of

_INT, _SIZE, _POINTER = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_FSYNC, _DIRECTORY_FSYNC = 1034, 1290  # SQLite's extended codes
_SETLK = fcntl.F_SETLK
# Where SQLite's structures keep what is exchanged here: sqlite3_vfs and sqlite3_io_methods, as sqlite3.h declares them.
_VFS_OPEN, _VFS_DELETE, _FILE_SYNC = 40, 48, 40
_FILE_METHODS_BYTES = 152
_OPEN = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER)  # the name as it lies: SQLite keeps it
_DELETE = ctypes.CFUNCTYPE(_INT, _POINTER, ctypes.c_char_p, _INT)
_SYNC = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)
_COMMENT = re.compile(r"--.*")
_VALUE = re.compile(r"\d+|'[^']*'")

# By name in SQLite's table: what it gives, what it takes; as unix.c declares them ("Many system calls", aSyscall).
_SHAPES: dict[str, tuple[Any, ...]] = {
    "open": (_INT, ctypes.c_char_p, _INT, _INT),
    "pread64": (ctypes.c_ssize_t, _INT, _POINTER, _SIZE, ctypes.c_int64),
    "pwrite64": (ctypes.c_ssize_t, _INT, _POINTER, _SIZE, ctypes.c_int64),
    "ftruncate": (_INT, _INT, ctypes.c_int64),
    "fcntl": (_INT, _INT, _INT, _POINTER),
    "fstat": (_INT, _INT, _POINTER),
    "unlink": (_INT, ctypes.c_char_p),
    "mmap": (_POINTER, _POINTER, _SIZE, _INT, _INT, _INT, ctypes.c_int64),
}
_VERBS = {"pread64": "read", "pwrite64": "write", "ftruncate": "truncate", "fstat": "size"}
_FAILED_MAP = ctypes.c_void_p(-1).value
_kept: list[Any] = []  # SQLite holds only their addresses


def install(watch: Watch) -> None:
    """From now on, for the rest of this process and every SQLite file that it opens."""
    table = apsw.VFS("watched", base="unix")
    _kept.append(table)
    for name, shape in _SHAPES.items():
        kind = ctypes.CFUNCTYPE(*shape, use_errno=True)
        address = table.xGetSystemCall(name)
        if address is None:
            raise RuntimeError(f"SQLite makes no system call {name} here")
        table.xSetSystemCall(name, _address(kind(_SEEN[name](watch, kind(address)))))
    _exchange_syncs(watch)
    apsw.connection_hooks.append(lambda connection: _trace(watch, connection))


def _address(function: Any) -> int:
    """Where it lies, for as long as this process lives."""
    _kept.append(function)
    return ctypes.cast(function, _POINTER).value or 0


def _exchange_syncs(watch: Watch) -> None:
    """Each file that SQLite opens from now on syncs through us; so does the removal of a name."""
    vfs = _Place(_vfs_address())
    opened, deleted = _OPEN(vfs.read(_VFS_OPEN)), _DELETE(vfs.read(_VFS_DELETE))

    def open(self: int, name: int | None, file: int, flags: int, answered: int) -> int:
        code = opened(self, name, file, flags, answered)
        methods = _Place(file).read(0)
        if code == 0 and methods and name is not None:
            # Files of one path are synced by methods of their own, for a method is not told the path.
            path = os.fsdecode(ctypes.string_at(name))
            _Place(file).write(0, _methods_syncing(watch, methods, path))
        return code

    def delete(self: int, name: bytes, sync_folder: int) -> int:
        code = deleted(self, name, sync_folder)
        deed = watch.meet("sqlite sync", os.path.dirname(os.fsdecode(name))) if sync_folder and code == 0 else ""
        return _DIRECTORY_FSYNC if _failed(deed) else code

    vfs.write(_VFS_OPEN, _address(_OPEN(open)))
    vfs.write(_VFS_DELETE, _address(_DELETE(delete)))


def _methods_syncing(watch: Watch, methods: int, path: str) -> int:
    """A copy of these file methods whose sync is seen."""
    copied = ctypes.create_string_buffer(ctypes.string_at(methods, _FILE_METHODS_BYTES), _FILE_METHODS_BYTES)
    place = _Place(ctypes.addressof(copied))
    synced = _SYNC(place.read(_FILE_SYNC))

    def sync(file: int, flags: int) -> int:
        deed = watch.meet("sqlite sync", path)
        if _failed(deed):
            return _FSYNC
        code = synced(file, flags)
        _done(deed)
        return code

    _kept.append(copied)
    place.write(_FILE_SYNC, _address(_SYNC(sync)))
    return place.address


def _vfs_address() -> int:
    connection = apsw.Connection(":memory:")
    held = ctypes.c_void_p()
    connection.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(held))
    connection.close()
    return held.value or 0


class _Place:
    """A structure in memory, read and written a pointer at a time."""

    def __init__(self, address: int) -> None:
        self.address = address

    def read(self, offset: int) -> int:
        return ctypes.c_void_p.from_address(self.address + offset).value or 0

    def write(self, offset: int, value: int) -> None:
        ctypes.c_void_p.from_address(self.address + offset).value = value


def _failed(deed: str) -> bool:
    """Whether the deed is a fault; then the caller must answer with failure."""
    if not deed or deed in (AFTER, "short"):
        return False
    ctypes.set_errno(getattr(errno, deed))
    return True


def _done(deed: str) -> None:
    if deed == AFTER:
        die()


def _opened(watch: Watch, real: Callable[..., int]) -> Callable[..., int]:
    def open(path: bytes, flags: int, mode: int) -> int:
        deed = watch.meet("sqlite open", os.fsdecode(path))
        return -1 if _failed(deed) else real(path, flags, mode)

    return open


def _unlinked(watch: Watch, real: Callable[..., int]) -> Callable[..., int]:
    def unlink(path: bytes) -> int:
        deed = watch.meet("sqlite unlink", os.fsdecode(path))
        if _failed(deed):
            return -1
        answer = real(path)
        _done(deed)
        return answer

    return unlink


def _by_descriptor(name: str) -> Callable[[Watch, Callable[..., int]], Callable[..., int]]:
    def seen(watch: Watch, real: Callable[..., int]) -> Callable[..., int]:
        def call(descriptor: int, *rest: Any) -> int:
            deed = watch.meet(f"sqlite {_VERBS[name]}", file_of(descriptor))
            if _failed(deed):
                return -1
            answer = real(descriptor, *rest)
            _done(deed)
            return answer

        return call

    return seen


def _written(watch: Watch, real: Callable[..., int]) -> Callable[..., int]:
    def pwrite(descriptor: int, data: int, size_bytes: int, offset: int) -> int:
        deed = watch.meet("sqlite write", file_of(descriptor))
        if _failed(deed):
            return -1
        answer = real(descriptor, data, size_bytes // 2 if deed == "short" else size_bytes, offset)
        _done(deed)
        return answer

    return pwrite


def _locked(watch: Watch, real: Callable[..., int]) -> Callable[..., int]:
    def call(descriptor: int, command: int, argument: int) -> int:
        deed = ""
        if command == _SETLK:
            lets_go = ctypes.c_short.from_address(argument).value == fcntl.F_UNLCK  # flock.l_type, its first field
            deed = watch.meet("sqlite unlock" if lets_go else "sqlite lock", file_of(descriptor))
        return -1 if _failed(deed) else real(descriptor, command, argument)

    return call


def _mapped(watch: Watch, real: Callable[..., int]) -> Callable[..., Any]:
    def mmap(address: Any, size_bytes: int, protection: int, flags: int, descriptor: int, offset: int) -> Any:
        deed = watch.meet("sqlite map", file_of(descriptor))
        return _FAILED_MAP if _failed(deed) else real(address, size_bytes, protection, flags, descriptor, offset)

    return mmap


_SEEN: dict[str, Callable[[Watch, Any], Callable[..., Any]]] = {
    "open": _opened,
    "pread64": _by_descriptor("pread64"),
    "pwrite64": _written,
    "ftruncate": _by_descriptor("ftruncate"),
    "fcntl": _locked,
    "fstat": _by_descriptor("fstat"),
    "unlink": _unlinked,
    "mmap": _mapped,
}


def _trace(watch: Watch, connection: apsw.Connection) -> None:
    """Each statement is seen before it runs; one that fails does so before it did anything."""

    def told(cursor: Any, statement: str, bindings: Any) -> bool:
        words = _VALUE.sub("?", _COMMENT.sub("", statement)).split()
        deed = watch.meet("sql", f"={' '.join(words)[:60]}")
        if deed == "ENOSPC":
            raise apsw.FullError("injected")
        if deed not in ("", AFTER):
            raise apsw.IOError("injected")
        return True

    connection.exec_trace = told
