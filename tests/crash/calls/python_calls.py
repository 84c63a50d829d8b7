"""The file calls that our Python makes, seen and made to fail where `os`, `io` and `fcntl` take them.

SQLite makes its calls below Python; they are in `sqlite_calls`.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
from collections.abc import Callable
from typing import Any

from calls.watch import AFTER, Watch, die, file_of

_WRITING = os.O_WRONLY | os.O_RDWR
_REAL_OPEN = io.open


def install(watch: Watch) -> None:
    """From now on, for the rest of this process."""
    for name, verb in _BY_PATH.items():
        setattr(os, name, _by_path(watch, verb, getattr(os, name)))
    for name, verb in _BY_TWO_PATHS.items():
        setattr(os, name, _by_two_paths(watch, verb, getattr(os, name)))
    for name, verb in _BY_DESCRIPTOR.items():
        setattr(os, name, _by_descriptor(watch, verb, getattr(os, name)))
    for name in ("write", "pwrite"):
        setattr(os, name, _writing(watch, getattr(os, name)))
    os.open = _opening(watch, os.open)
    os.pipe = _watched(watch, "pipe", lambda *given: "", os.pipe)
    fcntl.flock = _locking(watch, fcntl.flock)
    builtins.open = io.open = _file_opening(watch)  # type: ignore[assignment]


_BY_PATH = {
    "unlink": "unlink",
    "remove": "unlink",
    "mkdir": "mkdir",
    "rmdir": "rmdir",
    "mkfifo": "mkfifo",
    "chmod": "chmod",
    "listdir": "list",
    "scandir": "list",
    "statvfs": "statvfs",
}
_BY_TWO_PATHS = {"replace": "rename", "rename": "rename", "link": "link"}
_BY_DESCRIPTOR = {"fsync": "sync", "ftruncate": "truncate", "fchmod": "chmod", "read": "read"}


def fail(deed: str, *paths: Any) -> None:
    """Raise what the system would, if the deed is a fault."""
    if deed and deed not in (AFTER, "short"):
        number = getattr(errno, deed)
        raise OSError(number, os.strerror(number), *paths[:1])


def _done(deed: str) -> None:
    if deed == AFTER:
        die()


def _watched(
    watch: Watch, verb: str, path_of: Callable[..., str | None], real: Callable[..., Any]
) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        deed = watch.meet(verb, path_of(*given, **named))
        fail(deed, *given)
        answer = real(*given, **named)
        _done(deed)
        return answer

    return call


def _by_path(watch: Watch, verb: str, real: Callable[..., Any]) -> Callable[..., Any]:
    return _watched(watch, verb, _path, real)


def _by_two_paths(watch: Watch, verb: str, real: Callable[..., Any]) -> Callable[..., Any]:
    return _watched(watch, verb, lambda source, target, **named: _path(target), real)


def _by_descriptor(watch: Watch, verb: str, real: Callable[..., Any]) -> Callable[..., Any]:
    return _watched(watch, verb, lambda descriptor, *rest: _file(descriptor), real)


def _writing(watch: Watch, real: Callable[..., int]) -> Callable[..., int]:
    def write(descriptor: int, data: Any, *place: int) -> int:
        deed = watch.meet("write", _file(descriptor))
        fail(deed)
        if deed == "short":
            data = memoryview(data)[: len(data) // 2]
        written = real(descriptor, data, *place)
        _done(deed)
        return written

    return write


def _locking(watch: Watch, real: Callable[..., None]) -> Callable[..., None]:
    def flock(descriptor: Any, operation: int) -> None:
        fail(watch.meet("unlock" if operation == fcntl.LOCK_UN else "flock", _file(descriptor)))
        real(descriptor, operation)

    return flock


def _opening(watch: Watch, real: Callable[..., int]) -> Callable[..., int]:
    def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        verb = "create" if flags & os.O_CREAT else "open to write" if flags & _WRITING else "open"
        deed = watch.meet(verb, _path(path, dir_fd=dir_fd))
        fail(deed, path)
        descriptor = real(path, flags, mode, dir_fd=dir_fd)
        _done(deed)
        return descriptor

    return open


def _file_opening(watch: Watch) -> Callable[..., Any]:
    def open(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **named: Any) -> Any:
        path = _path(file)
        if path is None or not any(path.startswith(folder) for folder in watch.folders):
            return _REAL_OPEN(file, mode, buffering, *rest, **named)
        if not isinstance(file, int):
            fail(watch.meet("open" if set(mode) <= set("rbt") else "create", path), file)
        raw = _Raw(watch, path, file, mode.replace("b", "").replace("t", ""))
        size_bytes = buffering if buffering > 0 else io.DEFAULT_BUFFER_SIZE
        binary = io.BufferedReader(raw, size_bytes) if "r" in mode else io.BufferedWriter(raw, size_bytes)
        return binary if "b" in mode else io.TextIOWrapper(binary, *rest, **named)

    return open


class _Raw(io.FileIO):
    """A file whose reads and writes are seen, below Python's buffers."""

    def __init__(self, watch: Watch, path: str, file: Any, mode: str) -> None:
        self._watch, self._path = watch, path
        super().__init__(file, mode)

    def write(self, data: Any) -> int:
        deed = self._watch.meet("write", self._path)
        fail(deed)
        written = super().write(memoryview(data)[: len(data) // 2] if deed == "short" else data)
        _done(deed)
        return written

    def readinto(self, buffer: Any) -> int:
        fail(self._watch.meet("read", self._path))
        return super().readinto(buffer)

    def readall(self) -> bytes:
        fail(self._watch.meet("read", self._path))
        return super().readall()


def _path(given: Any = ".", *rest: Any, dir_fd: int | None = None, **named: Any) -> str | None:
    if isinstance(given, int):
        return _file(given)
    path = os.fsdecode(given)
    if dir_fd is not None:
        path = f"{file_of(dir_fd)}/{path}"
    return os.path.abspath(path)


def _file(descriptor: Any) -> str | None:
    """The file behind a descriptor, or None when it is none of a folder: a pipe, a socket, a terminal."""
    path = file_of(descriptor if isinstance(descriptor, int) else descriptor.fileno())
    return path if path and path.startswith("/") else None
