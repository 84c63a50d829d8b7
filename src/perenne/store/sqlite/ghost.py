"""Whether the names of a store still stand for the files that were opened under them.

A commit into a file that was removed or replaced succeeds, and nobody sees it; SQLite does not look, so we do.
What does not live here: what is refused after that (`pen`, `reading`), and who else may open the files (`guard`).
"""

from __future__ import annotations

import os
from pathlib import Path

from perenne.errors import StoreFailed
from perenne.store.sqlite.inode import Look, look

Identity = tuple[int, int]


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

    def check(self) -> int:
        """Prove that each name stands for the file it stood for; the length of the WAL in bytes.

        Raises: StoreFailed: names the file that was removed or replaced.
        """
        sizes = []
        for name, known in self._known:
            device, inode, size_bytes = _look(name, self.path)
            if (device, inode) != known:
                raise _ghost(self.path, name, "was replaced under us")
            sizes.append(size_bytes)
        return sizes[1]


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
