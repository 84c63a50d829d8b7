"""The ledger's database as one SQLite file: creating, opening, refusing; writes through `Writer`, reads beside it.

What does not live here: rules, and how a file is opened safely (`perenne.sqlite`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import apsw

from perenne import sqlite
from perenne.crashpoints import crash_point
from perenne.errors import SchemaTooOld, StoreForeign
from perenne.store import migrate
from perenne.store.driver import Transaction
from perenne.store.named_sql import load
from perenne.store.sqlite.writer import BUSY_S, Statements, Writer

T = TypeVar("T")

# "Pere", so that no other program's file is taken for a ledger.
APPLICATION_ID = 0x50657265
CHECKPOINT_PAGES = 8000  # 16 MB
_HERE = Path(__file__).parent


@cache
def queries() -> dict[str, str]:
    return load(_HERE / "queries")


def create(path: Path, *, workspace: str, now: int, allowed: Collection[str] = ()) -> None:
    """A new ledger, complete or absent.

    Raises: StoreExists, UnsafeFilesystem, StorageError.
    """
    connection = sqlite.open(path, mode="create", allowed=allowed)
    try:
        crash_point("create.store_made")
        _migrate(connection, from_version=0)
        _stamp(connection, workspace, now)
        crash_point("create.store_named")
        connection.close()
    except BaseException:
        connection.close(True)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        raise


def _stamp(connection: apsw.Connection, workspace: str, now: int) -> None:
    connection.execute("begin immediate")
    connection.execute(f"pragma application_id = {APPLICATION_ID}")
    connection.execute(queries()["insert_store"], {"workspace": workspace, "now": now})
    connection.execute("commit")


def _migrate(connection: apsw.Connection, *, from_version: int) -> None:
    """Each missing step in a transaction of its own, its number with it."""
    for number, text in enumerate(migrate.steps(_HERE / "migrations")[from_version:], from_version + 1):
        connection.execute("begin immediate")
        connection.execute(f"{text}; pragma user_version = {number}")
        connection.execute("commit")
        crash_point("migrate.committed")


class SQLiteDriver:
    """A `Driver` on one file."""

    def __init__(
        self,
        path: Path,
        *,
        workspace: str,
        mode: Literal["read", "write"] = "write",
        may_migrate: bool = False,
        allowed: Collection[str] = (),
        vfs: str | None = None,
    ) -> None:
        """Open an existing ledger.

        Args: may_migrate: only for the holder of the worker's lock.
        Raises: StoreMissing, StoreForeign, SchemaTooNew, SchemaTooOld, UnsafeFilesystem.
        """
        self._path, self._allowed, self._vfs = path, allowed, vfs
        # After a crash the first to come recovers the WAL, and whoever comes with it has to wait.
        self._connection = sqlite.open(path, mode=mode, busy_s=BUSY_S, allowed=allowed, vfs=vfs)
        try:
            self._check(workspace, may_migrate and mode == "write")
        except BaseException:
            self._connection.close(True)
            raise
        if mode == "write":
            self._connection.set_busy_timeout(0)  # from here on the writer waits by itself, fairly and to its deadline
            # Fewer, larger checkpoints: the pages that every job touches are then copied once, not each time.
            self._connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        self._writer = Writer(self._connection, queries()) if mode == "write" else None
        self._reading = threading.Lock()
        self._reader = self._connection if mode == "read" else None

    def _check(self, workspace: str, may_migrate: bool) -> None:
        found = self._connection.pragma("application_id")
        if found != APPLICATION_ID:
            raise StoreForeign(
                f"{self._path}: application id {found}, not that of a ledger; give the ledger's own path"
            )
        version = self._connection.pragma("user_version")
        try:
            migrate.check(self._path, version, len(migrate.steps(_HERE / "migrations")))
        except SchemaTooOld:
            if not may_migrate:
                raise
            _migrate(self._connection, from_version=version)
        owner = Statements(self._connection, queries()).one("read_store")
        if owner is None or owner[0] != workspace:
            raise StoreForeign(
                f"{self._path}: belongs to workspace {owner[0] if owner else '(none)'}, the manifest says {workspace}; "
                f"put the right ledger beside the manifest, nothing was changed",
                value=owner[0] if owner else None,
                workspace=workspace,
            )

    def write(self, work: Callable[[Transaction], T]) -> T:
        """As `Driver.write`."""
        assert self._writer is not None, "the ledger was opened for reading"
        return self._writer.write(work)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """As `Driver.read`."""
        with self._reading:
            if self._reader is None:
                self._reader = sqlite.open(self._path, mode="read", busy_s=BUSY_S, allowed=self._allowed, vfs=self._vfs)
            return self._look(self._reader, work)

    def _look(self, reader: apsw.Connection, work: Callable[[Transaction], T]) -> T:
        try:
            reader.execute("begin")
            try:
                return work(Statements(reader, queries()))
            finally:
                reader.execute("rollback")
        except apsw.Error as error:
            raise sqlite.explain(error, self._path) from error

    def close(self) -> None:
        """As `Driver.close`."""
        with self._reading:
            if self._reader is not None:
                self._reader.close()
            self._connection.close()
