"""Whole copies of a ledger that is one SQLite file; the functions are those of `store.copies.Copies`.

A copy has a rollback journal, so that it is a single file. What does not live here: where copies go and who may ask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

import apsw

from perenne import sqlite
from perenne.crashpoints import crash_point
from perenne.errors import StoreFailed, StoreForeign
from perenne.store import migrate
from perenne.store.copies import Copy, Progress
from perenne.store.driver import Transaction
from perenne.store.sqlite import migration
from perenne.store.sqlite.driver import queries
from perenne.store.sqlite.opening import APPLICATION_ID
from perenne.store.sqlite.statements import Statements

STEP_PAGES = 1024


def copy(source: Path, target: Path, *, allowed: Collection[str] = (), progress: Progress | None = None) -> None:
    """As `Copies.copy`."""
    with _opened(source, "read", allowed) as reading, _new(target, allowed) as writing:
        crash_point("copy.created")
        # One view for all steps: without it every commit of another process would start the copy anew.
        with sqlite.translated(source):
            reading.execute("begin")
            reading.pragma("schema_version")
        with sqlite.translated(target):
            _copy_pages(reading, writing, progress)
            crash_point("copy.filled")
            # The pages say that they are of a file with a WAL; this one is to stand alone.
            writing.pragma("journal_mode", "delete")


def _copy_pages(reading: apsw.Connection, writing: apsw.Connection, progress: Progress | None) -> None:
    with writing.backup("main", reading, "main") as pages:
        while not pages.done:
            pages.step(STEP_PAGES)
            if progress is not None:
                progress(pages.page_count - pages.remaining, pages.page_count)


@contextlib.contextmanager
def _new(target: Path, allowed: Collection[str]) -> Iterator[apsw.Connection]:
    connection = sqlite.open(target, mode="create", journal="delete", synchronous="extra", allowed=allowed)
    try:
        yield connection
        connection.close()
    except BaseException:
        connection.close(True)
        for end in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{target}{end}").unlink()
        raise


@contextlib.contextmanager
def _opened(path: Path, mode: sqlite.Mode, allowed: Collection[str]) -> Iterator[apsw.Connection]:
    connection = sqlite.open(path, mode=mode, allowed=allowed)
    try:
        yield connection
    finally:
        connection.close()


def verify(path: Path, *, workspace: str, allowed: Collection[str] = ()) -> Copy:
    """As `Copies.verify`."""
    with _opened(path, "read", allowed) as connection, sqlite.translated(path):
        schema = _refuse_foreign(connection, path)
        found = Statements(connection, queries())
        store = found.one("read_store")
        if store is None or store[0] != workspace:
            raise StoreForeign(
                f"{path}: a ledger of workspace {store[0] if store else '(none)'}, not of {workspace}; "
                f"give a copy of this workspace",
                value=store[0] if store else None,
                workspace=workspace,
            )
        _refuse_damaged(connection, path)
        counts, revision = found.one("export_counts"), found.one("last_revision")
        assert counts is not None
        assert revision is not None
        return Copy(store[0], store[1], schema, counts[3], revision[0], path.stat().st_size)


def _refuse_foreign(connection: apsw.Connection, path: Path) -> int:
    found = connection.pragma("application_id")
    if found != APPLICATION_ID:
        raise StoreForeign(f"{path}: application id {found}, not that of a ledger; give a copy that `backup` made")
    schema = int(connection.pragma("user_version"))
    if schema > migration.known():
        migrate.check(path, schema, migration.known())
    return schema


def _refuse_damaged(connection: apsw.Connection, path: Path) -> None:
    for finding in damage(connection):
        raise StoreFailed(
            f"{path}: damaged, or it cannot be read: {finding}; try again, and if it stays so, use another copy",
            path=str(path),
            finding=finding,
        )


def damage(connection: apsw.Connection) -> list[str]:
    """What SQLite finds wrong in pages, indexes and references; nothing when the file is whole.

    A page that the disk does not give is among it: only asking again tells that from damage.
    """
    rows = connection.execute("pragma integrity_check(20)")
    found = [" ".join(row[0].split()) for row in rows if row[0] != "ok"]
    references = islice(connection.execute("pragma foreign_key_check"), 20)
    return found + [f"row {row} of {table} names a missing row of {parent}" for table, row, parent, _ in references]


@contextlib.contextmanager
def looking(path: Path) -> Iterator[Transaction]:
    """As `Copies.looking`."""
    with _opened(path, "read", ()) as connection, sqlite.translated(path):
        connection.execute("begin")
        yield Statements(connection, queries())


def claim_epoch(path: Path, *, above: int, reason: str, actor: str, now: int) -> int:
    """As `Copies.claim_epoch`."""
    connection = sqlite.open(path, mode="write", journal="delete", synchronous="extra")
    try:
        with sqlite.translated(path):
            migration.bring_up(connection, path)
            connection.execute("begin immediate")
            epoch = _raise_epoch(Statements(connection, queries()), above, reason, actor, now)
            crash_point("restore.written")
            connection.execute("commit")
    finally:
        connection.close(True)
    crash_point("restore.committed")
    return epoch


def _raise_epoch(tx: Transaction, above: int, reason: str, actor: str, now: int) -> int:
    store, revision = tx.one("read_store"), tx.one("last_revision")
    assert store is not None
    assert revision is not None
    old = int(store[1])
    new = max(old, above) + 1
    tx.run("set_epoch", epoch=new)
    line = reason.replace("{old}", str(old)).replace("{new}", str(new))
    tx.run("insert_line_at", seq=revision[0] + 1, verb="restore", reason=line, actor=actor, now=now)
    return new


@contextlib.contextmanager
def alone(path: Path, *, allowed: Collection[str] = ()) -> Iterator[int]:
    """As `Copies.alone`. Leaving WAL mode takes a lock that no other connection lets go while it is open."""
    connection = sqlite.open(path, mode="write", journal="delete", allowed=allowed)
    try:
        with sqlite.translated(path):
            _refuse_foreign(connection, path)
            connection.execute("begin exclusive")
            store = Statements(connection, queries()).one("read_store")
        yield 0 if store is None else store[1]
    finally:
        connection.close(True)


def settle(path: Path, *, allowed: Collection[str] = ()) -> None:
    """As `Copies.settle`."""
    sqlite.open(path, mode="write", allowed=allowed).close()
