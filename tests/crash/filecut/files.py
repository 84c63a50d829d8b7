"""Writes down what our Python does to files and names, in the same list as SQLite's own writes.

Syncs are written down and not carried out, as in `powercut.recorder`. What does not live here: what survives (`disk`).
"""

from __future__ import annotations

import builtins
import io
import os
import stat as modes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calls.watch import file_of
from powercut.recorder import Recorder

_REAL_OPEN = io.open


def install(recorder: Recorder, root: Path) -> None:
    """From now on, for the rest of this process; what lies below `root` by now is on the disk."""
    files = Files(recorder, root)
    files.adopt()
    os.open = files.opening(os.open)
    os.write, os.pwrite = files.writing(os.write), files.writing(os.pwrite)
    os.ftruncate = files.truncating(os.ftruncate)
    os.fsync = os.fdatasync = files.sync
    os.mkdir = files.naming("folder", os.mkdir)
    os.link = files.naming("link", os.link)
    os.rename = os.replace = files.naming("rename", os.replace)
    os.unlink = os.remove = files.naming("delete", os.unlink, False)
    builtins.open = io.open = files.open  # type: ignore[assignment]


class Files:
    """The regular files and folders below one root."""

    def __init__(self, recorder: Recorder, root: Path) -> None:
        self._recorder, self._root = recorder, f"{root}/"

    def adopt(self) -> None:
        for folder, _, names in os.walk(self._root):
            place = os.path.relpath(folder, self._root)
            if place != ".":
                self._recorder.note("adopt_folder", place)
            for path in (os.path.join(folder, name) for name in names):
                if modes.S_ISREG(os.lstat(path).st_mode) and not path.endswith("-shm"):
                    self._recorder.known.add(os.path.relpath(path, self._root))
                    self._recorder.note("adopt", os.path.relpath(path, self._root), Path(path).read_bytes())

    def _below(self, path: Any) -> str | None:
        """Its name from the root on, or None when it lies elsewhere."""
        found = file_of(path) if isinstance(path, int) else os.path.abspath(os.fsdecode(path))
        return found.removeprefix(self._root) if found and found.startswith(self._root) else None

    def _regular(self, descriptor: int) -> str | None:
        """The name of a file that is followed, behind a descriptor."""
        name = self._below(descriptor)
        return name if name in self._recorder.known and modes.S_ISREG(os.fstat(descriptor).st_mode) else None

    def opening(self, real: Callable[..., int]) -> Callable[..., int]:
        def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            assert dir_fd is None or not flags & os.O_CREAT, "a file made by its folder's descriptor is not followed"
            new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            descriptor = real(path, flags, mode, dir_fd=dir_fd)
            if new:
                self._made(path)
            elif flags & os.O_TRUNC and (name := self._regular(descriptor)):
                self._recorder.note("truncate", name, 0)
            return descriptor

        return open

    def _made(self, path: Any) -> None:
        if (name := self._below(path)) is not None:
            self._recorder.known.add(name)
            self._recorder.note("create", name)

    def writing(self, real: Callable[..., int]) -> Callable[..., int]:
        def write(descriptor: int, data: Any, *place: int) -> int:
            written = real(descriptor, data, *place)
            if name := self._regular(descriptor):
                at = place[0] if place else os.lseek(descriptor, 0, os.SEEK_CUR) - written
                self._recorder.note("write", name, at, bytes(memoryview(data)[:written]))
            return written

        return write

    def truncating(self, real: Callable[..., None]) -> Callable[..., None]:
        def truncate(descriptor: int, size: int) -> None:
            real(descriptor, size)
            if name := self._regular(descriptor):
                self._recorder.note("truncate", name, size)

        return truncate

    def sync(self, descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        if modes.S_ISDIR(os.fstat(number).st_mode):
            folder = f"{file_of(number)}/"
            if folder.startswith(self._root):
                self._recorder.note("sync_folder", folder.removeprefix(self._root).rstrip("/") or ".")
        elif name := self._regular(number):
            self._recorder.note("sync", name, False)

    def naming(self, verb: str, real: Callable[..., None], *facts: Any) -> Callable[..., None]:
        """A call that makes or takes names, of files that are followed."""

        def call(*paths: Any, **wishes: Any) -> None:
            names = [self._below(path) for path in paths if isinstance(path, (str, bytes, os.PathLike))]
            followed = verb == "folder" or names[0] in self._recorder.known
            real(*paths, **wishes)
            if None in names or not followed:
                return
            self._recorder.note(verb, *names, *facts)
            if verb in ("rename", "delete"):
                self._recorder.known.discard(str(names[0]))
            if verb in ("rename", "link"):
                self._recorder.known.add(str(names[1]))

        return call

    def open(self, file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **named: Any) -> Any:
        """As the builtin; what is written goes through `os.write`, so that it is seen."""
        if set(mode) <= set("rbt") or self._below(file) is None:
            return _REAL_OPEN(file, mode, buffering, *rest, **named)
        flags = (
            os.O_WRONLY
            | os.O_CLOEXEC
            | {"w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL}.get(mode[0], os.O_CREAT | os.O_APPEND)
        )
        descriptor = file if isinstance(file, int) else os.open(file, flags, 0o666)
        binary = io.BufferedWriter(_Seen(descriptor, "w"))
        return binary if "b" in mode else io.TextIOWrapper(binary, *rest, **named)


class _Seen(io.FileIO):
    """A file that is written through `os.write`."""

    def write(self, data: Any) -> int:
        return os.write(self.fileno(), data)
