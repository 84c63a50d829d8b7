"""The read side of one SQLite file in this process: one consistent view at a time, each of bounded age.

An old view keeps the WAL from being emptied, so that it grows without end; therefore no view of ours grows old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from perenne import sqlite
from perenne.errors import StoreBusy
from perenne.store.driver import Row, Transaction
from perenne.store.sqlite.guard import Hold
from perenne.store.sqlite.statements import Statements

T = TypeVar("T")

MOST_READ_S = 5.0
PROVED_S = 0.1
_STEPS = 20_000  # of SQLite's machine between two looks at the clock: some tenths of a millisecond


class _Age:
    """When the view must end. Not the view itself, so that SQLite, which asks it, keeps no connection alive."""

    ends_at = 0.0

    def over(self) -> bool:
        return time.monotonic() > self.ends_at


class _View(Statements):
    """Statements of one view after the other, each of which has an end."""

    def __init__(self, connection: apsw.Connection, queries: dict[str, str], hold: Hold) -> None:
        super().__init__(connection, queries)
        self.connection = connection
        self._hold = hold
        self._age = _Age()
        connection.set_progress_handler(self._age.over, _STEPS)

    def look(self, work: Callable[[Transaction], T]) -> T:
        self._age.ends_at = time.monotonic() + MOST_READ_S
        self.connection.execute("begin")
        try:
            return work(self)
        finally:
            if not self._hold.forked and self.connection.in_transaction:
                self.connection.execute("rollback")

    def one(self, query: str, **values: object) -> Row | None:
        self._refuse_old()
        return super().one(query, **values)

    def all(self, query: str, **values: object) -> list[Row]:
        self._refuse_old()
        return super().all(query, **values)

    def _refuse_old(self) -> None:
        if self._age.over():
            raise too_old(self._hold.files.path)


def too_old(path: Path) -> StoreBusy:
    return StoreBusy(
        f"store {path}: a read took longer than {MOST_READ_S:g} s and was ended, for it kept the WAL from being "
        f"emptied; ask for less at once",
        path=str(path),
        limit=MOST_READ_S,
    )


class Reading:
    """One connection for reading, opened when it is first needed, and again after it failed."""

    def __init__(self, connect: Callable[[], apsw.Connection], queries: dict[str, str], hold: Hold) -> None:
        self._connect, self._queries, self._hold = connect, queries, hold
        self._lock = threading.Lock()
        self._view: _View | None = None
        self._proved_until = 0.0

    def use(self, connection: apsw.Connection) -> None:
        """Read through this connection from now on."""
        self._view = _View(connection, self._queries, self._hold)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """As `Driver.read`.

        Raises: StoreBusy: it took longer than 5 s. StoreFailed: also when the file was replaced under us.
        """
        self._hold.check()
        with self._lock:
            if self._view is None:
                self.use(self._connect())
            assert self._view is not None
            try:
                answer = self._view.look(work)
            except apsw.InterruptError as error:
                raise too_old(self._hold.files.path) from error
            except apsw.Error as error:
                self._drop()
                raise sqlite.explain(error, self._hold.files.path) from error
            self._prove()
            return answer

    def _prove(self) -> None:
        """Ten times a second: what is read is of the file that has the name."""
        now = time.monotonic()
        if now >= self._proved_until:
            self._hold.files.check()
            self._proved_until = now + PROVED_S

    def _drop(self) -> None:
        """What failed once is opened anew by whoever reads next."""
        view, self._view = self._view, None
        if view is not None:
            view.connection.close(True)

    def close(self) -> None:
        """Let go of the connection; twice is once."""
        with self._lock:
            view, self._view = self._view, None
            if view is not None:
                view.connection.close()
