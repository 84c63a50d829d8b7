"""Whether a file is the ledger that is wanted, found out before anything of it can change.

What does not live here: how a file is opened safely (`perenne.sqlite`), and how it is brought up (`migration`).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import apsw

from perenne import sqlite
from perenne.errors import SchemaTooOld, StoreForeign
from perenne.store import migrate
from perenne.store.sqlite import migration

# "Pere", so that no other program's file is taken for a ledger.
APPLICATION_ID = 0x50657265
_MAGIC = b"SQLite format 3\0"
_ID_AT = slice(68, 72)  # SQLite, "Database File Format", section 1.3


def refuse_strange(
    path: Path, *, workspace: str, may_migrate: bool, busy_s: float, allowed: Collection[str], vfs: str | None
) -> None:
    """Look with a reader's eyes first: opening for writing sets the journal mode, and closing copies the WAL.

    Raises: StoreMissing, StoreForeign, SchemaTooNew, SchemaTooOld, UnsafeFilesystem; nothing was changed.
    """
    refuse_other_program(path, vfs)
    probe = sqlite.open(path, mode="read", busy_s=busy_s, allowed=allowed, vfs=vfs)
    try:
        with sqlite.translated(path):
            check(probe, path, workspace, may_migrate=may_migrate)
    finally:
        probe.close()


def refuse_other_program(path: Path, vfs: str | None) -> None:
    """Refuse a file whose header names another program, unless a WAL might say otherwise; creates nothing beside it.

    Raises: StoreForeign.
    """
    header = _header(path, vfs)
    if header.startswith(_MAGIC):
        found = int.from_bytes(header[_ID_AT], "big")
        if found != APPLICATION_ID:
            raise _of_another_program(path, found)


def _header(path: Path, vfs: str | None) -> bytes:
    """The first bytes, through SQLite's own descriptors: closing one of ours would drop the locks of this process."""
    try:
        if not path.is_file() or (os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal")):
            return b""
        flags = [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
        file = apsw.VFSFile(vfs or "", os.path.realpath(path), flags)
    except (apsw.Error, OSError, ValueError):
        return b""  # whoever opens it says what is wrong
    try:
        return file.xRead(_ID_AT.stop, 0)
    except apsw.Error:
        return b""
    finally:
        file.xClose()


def check(connection: apsw.Connection, path: Path, workspace: str, *, may_migrate: bool = False) -> None:
    """Refuse what is not this workspace's ledger of today's version; an older one passes where it may be migrated.

    Raises: StoreForeign, SchemaTooNew, SchemaTooOld.
    """
    found = connection.pragma("application_id")
    if found != APPLICATION_ID:
        raise _of_another_program(path, found)
    try:
        migrate.check(path, connection.pragma("user_version"), migration.known())
    except SchemaTooOld:
        if not may_migrate:
            raise
    owner = connection.execute("select workspace from store").fetchone()
    if owner is None or owner[0] != workspace:
        raise StoreForeign(
            f"{path}: belongs to workspace {owner[0] if owner else '(none)'}, the manifest says {workspace}; "
            f"put the right ledger beside the manifest, nothing was changed",
            value=owner[0] if owner else None,
            workspace=workspace,
        )


def _of_another_program(path: Path, found: int) -> StoreForeign:
    return StoreForeign(
        f"{path}: application id {found}, not that of a ledger; give the ledger's own path", path=str(path), value=found
    )
