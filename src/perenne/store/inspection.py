"""What can be asked of a ledger's file and of its library from outside, reading only: the seam for the doctor.

What does not live here: questions about jobs (`reader`, `health`), and what an answer means (`runtime.doctor`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from perenne.store.driver import Driver


class Facts(msgspec.Struct, frozen=True):
    """A ledger's file as it stands; `known` is the schema version of this program."""

    journal_mode: str
    schema: int
    known: int
    page_bytes: int
    pages: int
    free_pages: int
    wal_bytes: int
    wal_soft_bytes: int
    wal_hard_bytes: int


class LockHolder(Protocol):
    """A process that holds a lock; as text it is named for people."""

    @property
    def pid(self) -> int: ...

    @property
    def stopped(self) -> bool: ...


class Inspector(Protocol):
    """A database whose ledgers are files."""

    def library(self) -> str:
        """Name and version of the library that reads and writes the file."""

    def missing_files(self, path: Path) -> list[str]:
        """Files that a reader would have to make: then nothing else here may be asked."""

    def facts(self, path: Path, *, allowed: Collection[str] = ()) -> Facts:
        """Raises: StorageError: it cannot be opened, or the library is too old."""

    def damage(self, path: Path, *, allowed: Collection[str] = ()) -> list[str]:
        """A sentence for each page, index or reference that is wrong; reads the whole file."""

    def writers(self, path: Path) -> Sequence[LockHolder]:
        """Who holds the write lock now."""

    def readers(self, path: Path) -> Sequence[LockHolder]:
        """Who holds an old view now."""

    def open(self, path: Path, *, workspace: str, allowed: Collection[str] = ()) -> Driver:
        """The ledger for reading. Raises: StoreForeign, SchemaTooNew, SchemaTooOld, StorageError."""
