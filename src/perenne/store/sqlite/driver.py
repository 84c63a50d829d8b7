"""The ledger's database as one SQLite file: creating, opening, refusing; writes through `Writer`, reads beside it.

What does not live here: rules, and how a file is opened safely (`perenne.sqlite`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from functools import cache, partial
from pathlib import Path
from typing import Literal, TypeVar

import apsw

from perenne import sqlite
from perenne.crashpoints import crash_point
from perenne.errors import EngineError, NotAllowed, StoreBusy
from perenne.store.apptables import AppTables
from perenne.store.driver import Block, Growth, Transaction
from perenne.store.named_sql import load
from perenne.store.space import Gauge
from perenne.store.sqlite import app_migration, checkpoints, guard, migration, opening
from perenne.store.sqlite.ghost import Files
from perenne.store.sqlite.reading import Reading
from perenne.store.sqlite.writer import BUSY_S, Writer

T = TypeVar("T")

_HERE = Path(__file__).parent


@cache
def queries() -> dict[str, str]:
    return load(_HERE / "queries")


def create(
    path: Path, *, workspace: str, now: int, allowed: Collection[str] = (), tables: AppTables | None = None
) -> None:
    """A new ledger, with the application's own tables, complete or absent.

    Raises: StoreExists, UnsafeFilesystem, StorageError; StatementRefused: about the application's tables.
    """
    connection = sqlite.open(path, mode="create", allowed=allowed)
    try:
        with sqlite.translated(path):
            migration.bring_up(connection, path)
            _stamp(connection, workspace, now)
        if tables is not None:
            app_migration.bring_up(connection, path, tables, queries(), may_migrate=True)
        crash_point("create.store_named")
        connection.close()
    except BaseException:
        connection.close(True)
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{path}{suffix}").unlink()
        raise


def _stamp(connection: apsw.Connection, workspace: str, now: int) -> None:
    connection.execute("begin immediate")
    connection.execute(f"pragma application_id = {opening.APPLICATION_ID}")
    connection.execute(queries()["insert_store"], {"workspace": workspace, "now": now})
    connection.execute("commit")


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
        tables: AppTables | None = None,
    ) -> None:
        """Open an existing ledger.

        Args: may_migrate: only for the holder of the worker's lock. tables: the application's own, for writing.
        Raises: StoreMissing, StoreForeign, SchemaTooNew, SchemaTooOld, UnsafeFilesystem.
        """
        guard.refuse_inherited(path)
        may_migrate = may_migrate and mode == "write"
        if mode == "write":
            opening.refuse_strange(
                path, workspace=workspace, may_migrate=may_migrate, busy_s=BUSY_S, allowed=allowed, vfs=vfs
            )
        else:
            opening.refuse_other_program(path, vfs)
        self._path, self._allowed, self._vfs = path, allowed, vfs
        # After a crash the first to come recovers the WAL, and whoever comes with it has to wait.
        self._connection = sqlite.open(path, mode=mode, busy_s=BUSY_S, allowed=allowed, vfs=vfs)
        try:
            with sqlite.translated(path):
                if may_migrate:
                    migration.bring_up(self._connection, path)
                opening.check(self._connection, path, workspace)
                if tables is not None and mode == "write":
                    app_migration.bring_up(self._connection, path, tables, queries(), may_migrate=may_migrate)
                self._take_up(mode)
        except BaseException:
            self._connection.close(True)
            raise

    def _take_up(self, mode: Literal["read", "write"]) -> None:
        """The file is ours: guard it from now on, write through one connection and read through another."""
        if mode == "write":
            checkpoints.set_limits(self._connection)
            self._connection.set_busy_timeout(0)  # from here on the writer waits by itself, fairly and to its deadline
        self._hold = guard.Hold(Files(self._path))
        self._hold.cover(self._connection)
        self._gauge = Gauge(self._path.parent)
        self._writer: Writer | None = None
        self._reading = Reading(partial(self._connect, "read"), queries(), self._hold)
        if mode == "read":
            self._reading.use(self._connection)
        else:
            self._writer = Writer(self._connection, queries(), hold=self._hold, reopen=partial(self._connect, "write"))

    def _connect(self, mode: Literal["read", "write"]) -> apsw.Connection:
        connection = sqlite.open(self._path, mode=mode, busy_s=BUSY_S, allowed=self._allowed, vfs=self._vfs)
        self._hold.cover(connection)
        if mode == "write":
            with sqlite.translated(self._path):
                checkpoints.set_limits(connection)
                connection.set_busy_timeout(0)
        return connection

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        recheck: Callable[[Transaction, T], bool] | None = None,
        durable: bool = True,
        then: Callable[[], None] | None = None,
    ) -> T:
        """As `Driver.write`."""
        return self._writes().write(work, recheck=recheck, durable=durable, then=then)

    def block(self) -> Block:
        """As `Driver.block`."""
        return self._writes().block()

    def _writes(self) -> Writer:
        if self._writer is None:
            raise NotAllowed("access: this workspace was opened to read; open it with access='write' to change it")
        self._hold.check()
        return self._writer

    def read(self, work: Callable[[Transaction], T]) -> T:
        """As `Driver.read`."""
        return self._reading.read(work)

    def refusal(self, growth: Growth) -> EngineError | None:
        """As `Driver.refusal`."""
        return self._gauge.low() or (self._long_wal() if growth == "submit" else None)

    def _long_wal(self) -> StoreBusy | None:
        if self._writer is None or self._writer.wal_bytes <= checkpoints.HARD_BYTES:
            return None
        self.write(lambda tx: None, durable=False)  # measures it anew, and empties it if nobody is in the way
        return checkpoints.refusal(self._path, self._writer.wal_bytes)

    def close(self) -> None:
        """As `Driver.close`. In a forked child it does nothing: the connections are the parent's."""
        if self._hold.forked:
            return
        self._reading.close()
        if self._writer is not None:
            self._writer.close()
        self._hold.release()
