"""A file layer below SQLite that does what it is told and writes down what a disk would be told.

Syncs are written down and not carried out: what they promise is `disk`'s to keep. Shared memory is not recorded, since
nothing of it has to survive.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import apsw

NAME = "powercut"
_BASE = "unix"
# These kinds of file have their folder synced together with themselves, the first time after each opening.
_WITH_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class Recorder(apsw.VFS):
    """The file layer of this whole process from now on; `operations` grows.

    Its luck is seeded: SQLite draws the salts of its WAL from it, so that the same story gives the same bytes.
    """

    def __init__(self, seed: int, root: Path) -> None:
        """Args: root: the folder below which all files lie; they are known by their paths from there."""
        self._root = root
        self.operations: list[tuple[Any, ...]] = []
        self.known: set[str] = set()
        self._luck = Random(seed)
        super().__init__(NAME, base=_BASE, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> RecordedFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "a ledger uses no temporary file"
        # Looked at from outside before SQLite opens it: closing a descriptor of our own would drop SQLite's locks.
        known_as = self.name_of(path)
        content = _content(path) if known_as not in self.known else None
        return RecordedFile(self, name, flags, known_as, content)

    def xDelete(self, name: str, and_names: bool) -> None:
        super().xDelete(name, and_names)
        self.known.discard(self.name_of(name))
        self.note("delete", self.name_of(name), bool(and_names))

    def xRandomness(self, size: int) -> bytes:
        return self._luck.randbytes(size)

    def name_of(self, path: str) -> str:
        return os.path.relpath(path, self._root)

    def note(self, *operation: Any) -> None:
        self.operations.append(operation)

    def met(self, name: str, content: bytes | None) -> None:
        """A file that is met the first time: new, or there before the recording."""
        if name not in self.known:
            self.known.add(name)
            self.note("adopt", name, content) if content else self.note("create", name)


def _content(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


class RecordedFile(apsw.VFSFile):
    """One opened file."""

    def __init__(
        self,
        recorder: Recorder,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        known_as: str,
        content: bytes | None,
    ) -> None:
        self._recorder, self._name = recorder, known_as
        asked = flags[0]
        self._folder_too = bool(asked & apsw.SQLITE_OPEN_CREATE and asked & _WITH_FOLDER)
        super().__init__(_BASE, name, flags)
        recorder.met(known_as, content)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._recorder.note("write", self._name, offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._recorder.note("truncate", self._name, size)

    def xSync(self, flags: int) -> None:
        self._recorder.note("sync", self._name, self._folder_too)
        self._folder_too = False
