"""How much room the disk has, and the floor below which nothing new is taken on.

What lives here: measuring. What does not: who is refused below the floor (`ledger`), and a disk that is already full.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from perenne.errors import DiskLow, StoreFailed

FLOOR_BYTES = 64 << 20
FLOOR_SHARE = 100
FRESH_S = 0.1


class Space(msgspec.Struct, frozen=True):
    """The room on one disk for who is not root, and how much of it is kept free."""

    free_bytes: int
    floor_bytes: int

    @property
    def low(self) -> bool:
        return self.free_bytes < self.floor_bytes


def floor(path: Path) -> Space:
    """The room on the disk that holds the folder or file `path`.

    The floor is 64 MiB or one hundredth of the disk, whichever is smaller: it is there so that acknowledgements,
    cancels and a purge still fit, which need megabytes and not a share. The hundredth keeps small disks usable.

    Raises: StoreFailed: the path is gone, or its disk does not answer.
    """
    try:
        found = os.statvfs(path)
    except OSError as error:
        raise StoreFailed(
            f"disk of {path}: its free space cannot be asked ({error.strerror}); check that it is still mounted",
            path=str(path),
        ) from error
    floor_bytes = min(FLOOR_BYTES, found.f_blocks * found.f_frsize // FLOOR_SHARE)
    return Space(found.f_bavail * found.f_frsize, floor_bytes)


class Gauge:
    """Watches one disk; asked as often as one likes, it looks ten times a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stale_at = 0.0
        self._found: Space | None = None

    def low(self) -> DiskLow | None:
        """The refusal while the disk is below its floor.

        Raises: StoreFailed: as `floor`.
        """
        now = time.monotonic()
        if self._found is None or now >= self._stale_at:
            # Two threads may both look; either answer is fresh.
            self._found, self._stale_at = floor(self._path), now + FRESH_S
        return _refusal(self._path, self._found) if self._found.low else None


def _refusal(path: Path, found: Space) -> DiskLow:
    return DiskLow(
        f"disk of {path}: {found.free_bytes:,} bytes are free, the floor is {found.floor_bytes:,}; "
        f"free space, then try again: what already runs is still recorded",
        path=str(path),
        value=found.free_bytes,
        limit=found.floor_bytes,
    )
