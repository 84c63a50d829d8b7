"""What this process must not do to a store that it has open: open its files by other means, or take it across a fork.

SQLite keeps POSIX locks, which belong to the process: closing any other descriptor of the file drops them, and a child
inherits the belief to hold them but not the locks. Both lose commits without an error.
Lock: `_changing` is held for moments and taken last; nothing is opened or waited for under it.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import apsw

from perenne.errors import StoreFailed
from perenne.store.sqlite.ghost import Files, Identity

_changing = threading.RLock()
_holds: weakref.WeakSet[Hold] = weakref.WeakSet()
_names: frozenset[str] = frozenset()  # of all held files: what most opens of other files are compared with, and no more
_inherited: frozenset[Identity] = frozenset()
_hooked = False


class Hold:
    """One open store of this process, from its opening to `release`."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.forked = False
        self._released = False
        self._connections: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        with _changing:
            _hook()
            _holds.add(self)
            _remember_names()

    def cover(self, connection: apsw.Connection) -> None:
        """This connection is one of the store's: a forked child shall neither use nor close it."""
        self._connections.add(connection)

    def check(self) -> None:
        """Raises: StoreFailed: the store was opened before this process was forked, or is closed."""
        if self.forked:
            raise _crossed(self.files.path)
        if self._released:
            raise StoreFailed(f"store {self.files.path}: it was closed; open it again", path=str(self.files.path))

    def release(self) -> None:
        """The connections are closed; the files are anybody's again."""
        self._released = True
        with _changing:
            _holds.discard(self)
            _remember_names()

    def lose(self) -> None:
        """In a forked child: the connections are the parent's; closing one here would undo the parent's transaction."""
        self.forked = True
        for connection in self._connections:
            _keep_for_ever(connection)


def refuse_inherited(path: Path) -> None:
    """Refuse to open a file that the parent had open when this process was forked.

    SQLite in this process takes the parent's locks for its own, so that a new connection takes none.
    Raises: StoreFailed.
    """
    if _inherited and _identity(str(path)) in _inherited:
        raise _crossed(path)


def _crossed(path: Path) -> StoreFailed:
    return StoreFailed(
        f"store {path}: it was opened before this process was forked, and its locks stayed with the parent; "
        f"start the child as a new process (spawn, not fork) and open the store there",
        path=str(path),
    )


def _remember_names() -> None:
    global _names
    with _changing:
        _names = frozenset(name for hold in _holds for name in hold.files.names)


def _hook() -> None:
    """One audit hook a process, since none can be removed. SQLite's own opening is C and is not seen by it."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_watch)
        _hooked = True


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        path = args[0]
        if type(path) is str:
            if path.rpartition("/")[2] in _names:
                _refuse_held(path)
        elif isinstance(path, (bytes, os.PathLike)) and os.path.basename(os.fsdecode(path)) in _names:
            _refuse_held(os.fsdecode(path))
    elif event == "sqlite3.connect" and _names:
        for path in _database_names(args[0]):
            _refuse_held(path)


def _database_names(given: Any) -> list[str]:
    """The file that a database name means, as a path and as a URI."""
    if not isinstance(given, (str, bytes, os.PathLike)):
        return []
    name = os.fsdecode(given)
    if not name.startswith("file:"):
        return [name]
    from urllib.parse import unquote  # here, because it is slow to import and few programs ever come here

    place = name.removeprefix("file:").partition("?")[0].partition("#")[0]
    local = place.removeprefix("//localhost") if place.startswith("//localhost/") else place.removeprefix("//")
    return [name, unquote(local)]


def _refuse_held(path: str) -> None:
    """Raises: StoreFailed: the path leads to a file of an open store, under whatever name."""
    found = _identity(path)
    with _changing:
        held = next((hold for hold in _holds if found in hold.files.identities), None)
    if held is not None:
        raise StoreFailed(
            f"file {path} belongs to store {held.files.path}, which this process has open: closing a second descriptor "
            f"would drop its locks and lose later commits; look through the engine, make a backup, or use another "
            f"process",
            path=path,
            store=str(held.files.path),
        )


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _keep_for_ever(connection: apsw.Connection) -> None:
    """One reference too many, so that not even the end of the interpreter closes it."""
    import ctypes  # here, because it is slow to import and only a forked child needs it

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _forget_in_child() -> None:
    global _inherited
    for hold in _holds:
        hold.lose()
        _inherited |= hold.files.identities
    _holds.clear()
    _remember_names()
    _changing.release()


os.register_at_fork(before=_changing.acquire, after_in_parent=_changing.release, after_in_child=_forget_in_child)
