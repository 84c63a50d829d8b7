"""Keeps the WAL short: SQLite copies it by itself, we cut it when it grew long, and refuse what makes it grow further.

A WAL grows while a reader holds an old view. Below the soft limit that is SQLite's business, above it ours.
"""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from perenne.errors import StoreBusy
from perenne.store.sqlite import holders

# Fewer, larger checkpoints than SQLite's own: the pages that every job touches are then copied once, not each time.
CHECKPOINT_PAGES = 8000  # 16 MB
SOFT_BYTES = 64 << 20
HARD_BYTES = 1 << 30
RETRY_S = 1.0
WAIT_MS = 50


def set_limits(connection: apsw.Connection) -> None:
    """Let SQLite copy the WAL every 8000 pages, and cut a file that grew beyond the soft limit when it starts anew."""
    connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
    connection.pragma("journal_size_limit", SOFT_BYTES)


class Checkpoints:
    """Cuts the WAL of one store between two transactions; it never raises, for the next turn tries again."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def tend(self, connection: apsw.Connection, wal_bytes: int, *, disk_full: bool = False) -> int:
        """Copy and empty a WAL above the soft limit, at most once a second; how long it is then.

        Waits at most 50 ms for readers and other writers. The copying takes as long as there are pages that differ.
        On a full disk a WAL of any length is copied but not cut: the next transactions use its room again, which
        nobody else can take from them then.
        """
        if (wal_bytes <= SOFT_BYTES and not disk_full) or time.monotonic() < self._next_at:
            return wal_bytes
        try:
            # The long copying first, beside other writers: cutting keeps them out, but leaves little to copy then.
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            return wal_bytes if disk_full else cut(connection)
        except apsw.Error:  # a reader is in the way, or the disk: what commits next will say so
            return wal_bytes
        finally:
            self._next_at = time.monotonic() + RETRY_S


def cut(connection: apsw.Connection) -> int:
    """Empty the WAL; how long it is then."""
    connection.set_busy_timeout(WAIT_MS)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return 0
    finally:
        connection.set_busy_timeout(0)


def refusal(path: Path, wal_bytes: int) -> StoreBusy | None:
    """The refusal while the WAL is above the hard limit; it names who reads, as far as that can be known."""
    if wal_bytes <= HARD_BYTES:
        return None
    found = holders.readers(path)
    who = holders.sentence(found, "a reader that cannot be named")
    return StoreBusy(
        f"store {path}: its WAL holds {wal_bytes:,} bytes, the limit is {HARD_BYTES:,}; {who} keeps it from being "
        f"emptied: end it, then try again (what already runs is still recorded)",
        path=str(path),
        value=wal_bytes,
        limit=HARD_BYTES,
        readers=[holder.pid for holder in found],
    )
