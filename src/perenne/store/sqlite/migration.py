"""Brings one SQLite file to today's schema: every missing step in a transaction of its own, its number with it.

Which steps there are and when to refuse is `store.migrate`'s; how a file is opened is `perenne.sqlite`'s.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from perenne import sqlite
from perenne.crashpoints import crash_point
from perenne.errors import StoreBusy
from perenne.store import migrate

FOLDER = Path(__file__).parent / "migrations"
PATIENCE_S = 60.0  # another process may be at a long step; whoever waits for it has nothing to do until it is over


def known() -> int:
    """The schema version of this program."""
    return len(migrate.steps(FOLDER))


def plan(path: Path, *, allowed: Collection[str] = ()) -> list[migrate.Step]:
    """The steps that the ledger at `path` still needs; reads only.

    Raises: SchemaTooNew; StoreMissing, StoreForeign, StoreFailed: it cannot be opened.
    """
    connection = sqlite.open(path, mode="read", allowed=allowed)
    try:
        with sqlite.translated(path):
            found = connection.pragma("user_version")
    finally:
        connection.close()
    if found > known():
        migrate.check(path, found, known())
    return migrate.plan(FOLDER, found)


def bring_up(connection: apsw.Connection, path: Path, *, patience_s: float = PATIENCE_S) -> None:
    """Take every step that the file has not seen. Processes that do this at once take each step once.

    Raises: SchemaTooNew, StoreBusy, StoreFailed, DiskLow.
    Guarantees: killed or failed in the middle of a step, the file is at the version before that step.
    """
    steps = migrate.steps(FOLDER)
    deadline = time.monotonic() + patience_s
    with sqlite.translated(path):
        # Asked again under the lock of each step: another process may have taken it while we waited.
        while (found := connection.pragma("user_version")) < len(steps):
            with step(connection, path, deadline):
                _take_next(connection, steps)
    if found > len(steps):
        migrate.check(path, found, len(steps))


def _take_next(connection: apsw.Connection, steps: list[str]) -> None:
    found = connection.pragma("user_version")
    if found < len(steps):
        connection.execute(steps[found])
        connection.pragma("user_version", found + 1)


@contextmanager
def step(connection: apsw.Connection, path: Path, deadline: float) -> Iterator[None]:
    """A transaction for one step of a migration; it stands whole or not at all. Raises: StoreBusy, as `begin`."""
    begin(connection, path, deadline)
    try:
        yield
        crash_point("migrate.written")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    crash_point("migrate.committed")


def begin(connection: apsw.Connection, path: Path, deadline: float) -> None:
    """Take the write lock for a migration. Raises: StoreBusy: not before the deadline."""
    while True:
        try:
            connection.execute("begin immediate")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise StoreBusy(
                    f"store {path}: another process held its write lock while it should be migrated; "
                    f"end or continue that process, then try again",
                    path=str(path),
                ) from None
            time.sleep(random.uniform(0.001, 0.02))
