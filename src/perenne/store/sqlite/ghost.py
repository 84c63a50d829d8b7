"""Whether the names of a store still stand for the files that were opened under them.

A commit into a file that was removed or replaced succeeds, and nobody sees it; SQLite does not look, so we do.
What does not live here: what is refused after that (`pen`, `reading`), and who else may open the files (`guard`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from perenne.errors import StoreFailed
from perenne.store.sqlite.inode import Look, look

Identity = tuple[int, int]
_Folder = tuple[int, int, int]  # device, inode, time of its last change

MEASURE_EVERY = 15
TICK_NS = 100_000_000  # ten of the coarsest clock; one of whole seconds is recognised and never relied on


class Files:
    """The database, its WAL and its shared memory, by device and inode, as their names stood when they were opened."""

    def __init__(self, path: Path) -> None:
        """Args: path: as it was given; SQLite follows a link, and puts the companions beside the file it leads to.

        Raises: StoreFailed: one of the three is missing; a connection in WAL mode that has read makes all of them.
        """
        real = os.path.realpath(path)
        # Whoever comes next opens the path as it was given, so that name is asked and not the one it led to.
        names = [os.fsencode(name) for name in (os.path.abspath(path), f"{real}-wal", f"{real}-shm")]
        self.path = path
        self._known = [(name, _look(name, path)[:2]) for name in names]
        self.names = frozenset(os.path.basename(os.fsdecode(name)) for name in (os.fsencode(real), *names))
        self.identities: frozenset[Identity] = frozenset(identity for _, identity in self._known)
        # Of a link only its own folder could be watched, and not what lies between it and the file.
        self._folder = None if os.path.islink(path) else os.path.dirname(os.path.abspath(path))
        self._proved: _Folder | None = None
        self._rest, self._wal_bytes = 0, 0

    def check(self) -> int:
        """Prove that each name stands for the file it stood for; the length of the WAL in bytes, or a little less.

        In a folder that has not changed since they were looked at, the names stand as they stood; so most checks look
        at the folder alone. The WAL is measured every sixteenth time at least.

        Raises: StoreFailed: names the file that was removed or replaced.
        """
        found = None if self._folder is None else _look_at_folder(self._folder)
        if found is not None and found == self._proved and self._rest > 0:
            self._rest -= 1
            return self._wal_bytes
        self._wal_bytes = self._look_at_each()
        self._proved, self._rest = found if _can_be_relied_on(found) else None, MEASURE_EVERY
        return self._wal_bytes

    def _look_at_each(self) -> int:
        sizes = []
        for name, known in self._known:
            device, inode, size_bytes = _look(name, self.path)
            if (device, inode) != known:
                raise _ghost(self.path, name, "was replaced under us")
            sizes.append(size_bytes)
        return sizes[1]


def _look_at_folder(folder: str) -> _Folder | None:
    """Which folder has this name, and when a name in it last changed."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _can_be_relied_on(found: _Folder | None) -> bool:
    """Two changes within one tick of the file system's clock bear the same time, a later one does not."""
    return found is not None and time.time_ns() - found[2] > TICK_NS and found[2] % 1_000_000_000 != 0


def _look(name: bytes, path: Path) -> Look:
    try:
        return look(name)
    except FileNotFoundError as error:
        raise _ghost(path, name, "was removed under us") from error
    except OSError as error:
        raise _ghost(path, name, f"cannot be seen any more ({error.strerror})") from error


def _ghost(path: Path, name: bytes, what: str) -> StoreFailed:
    file = os.fsdecode(name)
    return StoreFailed(
        f"store {path}: {file} {what}, so what is written now may be in no file that has a name; "
        f"find what moved it, then open the store again and read back what was committed",
        path=str(path),
        file=file,
    )
