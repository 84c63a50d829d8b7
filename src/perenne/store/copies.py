"""What a database of one file can do with whole copies of itself: the seam for backup, restore and export.

What does not live here: names and folders of copies (`runtime`), and how a copy is made (the driver's folder).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from perenne.store.driver import Transaction

Progress = Callable[[int, int], object]  # parts done, parts in all


class Copy(msgspec.Struct, frozen=True):
    """A copy that was looked through and found whole."""

    workspace: str
    epoch: int
    schema: int
    jobs: int
    revision: int
    size_bytes: int


class Copies(Protocol):
    """A database whose ledgers are files."""

    def copy(
        self, source: Path, target: Path, *, allowed: Collection[str] = (), progress: Progress | None = None
    ) -> None:
        """Copy one state of the ledger, beside whoever writes to it, into a new file (0600) that is durable.

        The target is one file, without companions; it has no name of its own yet: a failed copy leaves nothing.
        Raises: StoreExists, StoreMissing, StoreForeign, StoreBusy, DiskLow, StoreFailed, UnsafeFilesystem.
        """

    def verify(self, path: Path, *, workspace: str, allowed: Collection[str] = ()) -> Copy:
        """Look through a copy: whose it is, its schema, every page, every reference. Reads only.

        Raises: StoreForeign: of another workspace, or no ledger. SchemaTooNew. StoreFailed: damaged. StoreMissing.
        """

    def looking(self, path: Path) -> AbstractContextManager[Transaction]:
        """One state of a copy that nobody writes to, to be looked at as long as it takes."""

    def claim_epoch(self, path: Path, *, above: int, reason: str, actor: str, now: int) -> int:
        """Bring a copy that nobody else opens to today's schema and raise its epoch above its own and the given one.

        The same transaction writes the line of history, in which `{old}` and `{new}` are the epochs. Returns the epoch.
        """

    def alone(self, path: Path, *, allowed: Collection[str] = ()) -> AbstractContextManager[int]:
        """Hold a ledger so that nobody else has it open or can open it; its epoch. All of it is in one file then.

        Raises: StoreBusy: somebody has it open; nothing was changed. StoreMissing, StoreForeign, StoreFailed, DiskLow.
        """

    def settle(self, path: Path, *, allowed: Collection[str] = ()) -> None:
        """Open and close a ledger once, so that every file a reader needs stands beside it."""
