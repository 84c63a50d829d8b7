"""The file of a ledger and SQLite itself, looked at from outside; the functions are those of `store.inspection`."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import apsw

from perenne import sqlite
from perenne.store.inspection import Facts
from perenne.store.sqlite import checkpoints, holders, migration
from perenne.store.sqlite.backup import damage as damage_of
from perenne.store.sqlite.driver import SQLiteDriver

readers, writers = holders.readers, holders.writers


def library() -> str:
    """As `Inspector.library`."""
    return f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"


def missing_files(path: Path) -> list[str]:
    """As `Inspector.missing_files`."""
    real = os.path.realpath(path)
    return [name for name in (real, f"{real}-wal", f"{real}-shm") if not os.path.exists(name)]


def facts(path: Path, *, allowed: Collection[str] = ()) -> Facts:
    """As `Inspector.facts`."""
    connection = sqlite.open(path, mode="read", allowed=allowed)
    try:
        with sqlite.translated(path):
            ask = connection.pragma
            return Facts(
                journal_mode=ask("journal_mode"),
                schema=ask("user_version"),
                known=migration.known(),
                page_bytes=ask("page_size"),
                pages=ask("page_count"),
                free_pages=ask("freelist_count"),
                wal_bytes=os.stat(f"{os.path.realpath(path)}-wal").st_size,
                wal_soft_bytes=checkpoints.SOFT_BYTES,
                wal_hard_bytes=checkpoints.HARD_BYTES,
            )
    finally:
        connection.close()


def damage(path: Path, *, allowed: Collection[str] = ()) -> list[str]:
    """As `Inspector.damage`."""
    connection = sqlite.open(path, mode="read", allowed=allowed)
    try:
        with sqlite.translated(path):
            return damage_of(connection)
    finally:
        connection.close()


def open(path: Path, *, workspace: str, allowed: Collection[str] = ()) -> SQLiteDriver:
    """As `Inspector.open`."""
    return SQLiteDriver(path, workspace=workspace, mode="read", allowed=allowed)
