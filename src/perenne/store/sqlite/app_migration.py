"""Brings an application's own tables to its newest step, each step in a transaction of its own with its number.

What does not live here: the engine's own schema (`migration`), and what a statement may touch (`restriction`).
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import apsw

from perenne import sqlite
from perenne.errors import SchemaTooNew, SchemaTooOld, StatementRefused
from perenne.store.apptables import AppTables
from perenne.store.migrate import Step
from perenne.store.sqlite import migration
from perenne.store.sqlite.restriction import Restriction

Queries = dict[str, str]


def bring_up(
    connection: apsw.Connection, path: Path, tables: AppTables, queries: Queries, *, may_migrate: bool
) -> None:
    """Take every step that the file has not seen; processes that do this at once take each step once.

    Raises: SchemaTooNew; SchemaTooOld: steps are missing and may not be taken here; StatementRefused: a step touches
    what is not the application's; StoreBusy, StoreFailed, DiskLow.
    Guarantees: killed or failed in the middle of a step, the file is as it was before that step.
    """
    with sqlite.translated(path):
        found, known = _version(connection, queries), len(tables.steps)
        if found > known:
            raise _too_new(path, tables, found)
        if found < known and not may_migrate:
            raise SchemaTooOld(
                f"{path}: tables {tables.prefix}… are at step {found}, this app has {known}; start a worker: it "
                f"migrates under its lock",
                value=found,
                limit=known,
            )
        while _version(connection, queries) < known:
            with migration.step(connection, path, time.monotonic() + migration.PATIENCE_S):
                _take_next(connection, tables, queries)


def plan(path: Path, tables: AppTables, queries: Queries, *, allowed: Collection[str] = ()) -> list[Step]:
    """The steps of the application that the ledger at `path` still needs; reads only.

    Raises: SchemaTooNew: of the application's tables; StoreMissing, StoreForeign, StoreFailed.
    """
    connection = sqlite.open(path, mode="read", allowed=allowed)
    try:
        with sqlite.translated(path):
            names = {row[1] for row in connection.execute(queries["app_neighbours"])}
            found = _version(connection, queries) if "app_schema" in names else 0
    finally:
        connection.close()
    if found > len(tables.steps):
        raise _too_new(path, tables, found)
    steps = enumerate(tables.steps[found:], found + 1)
    return [Step(number, f"{tables.prefix}…", _summary(step)) for number, step in steps]


def _summary(step: str) -> str:
    """What a step says about itself in a comment it opens with, else how it begins."""
    words = " ".join(step.split())
    opening = step.lstrip().partition("\n")[0]
    return opening.lstrip("- ") if opening.startswith("--") else words[:80] + ("…" if len(words) > 80 else "")


def _version(connection: apsw.Connection, queries: Queries) -> int:
    row = connection.execute(queries["read_app_schema"]).fetchone()
    return int(row[0]) if row else 0


def _take_next(connection: apsw.Connection, tables: AppTables, queries: Queries) -> None:
    found = _version(connection, queries)  # asked again under the lock: another process may have taken the step
    if found >= len(tables.steps):
        return
    before = _others(connection, tables.prefix, queries)
    try:
        Restriction(connection).execute(tables.prefix, tables.steps[found], scope="schema")
        _check(connection, tables.prefix, before, queries)
    except StatementRefused as error:
        raise StatementRefused(f"migration {found + 1} of {tables.prefix}…: {error}", **error.facts) from None
    finally:
        connection.authorizer = None
    connection.execute(queries["set_app_schema"], {"version": found + 1})


def _check(connection: apsw.Connection, prefix: str, before: Any, queries: Queries) -> None:
    """What no authorizer is asked about: a new name outside the prefix, and a hold on our rows."""
    if _others(connection, prefix, queries) != before:
        raise StatementRefused(f"it gives something a name outside {prefix}…; keep all names inside")
    for table, parent in map(_names, connection.execute(queries["app_references"])):
        if table.lower().startswith(prefix) and not parent.lower().startswith(prefix):
            raise StatementRefused(
                f"table {table} refers to table {parent}, whose rows must stay free to go; keep the id without a "
                f"`references`"
            )


def _names(row: Any) -> tuple[str, str]:
    return row[0], row[1]


def _others(connection: apsw.Connection, prefix: str, queries: Queries) -> list[Any]:
    """All that is not the application's, as the schema has it."""
    rows: list[Any] = connection.execute(queries["app_neighbours"]).fetchall()
    return [row for row in rows if not row[2].lower().startswith((prefix, "sqlite_"))]


def _too_new(path: Path, tables: AppTables, found: int) -> SchemaTooNew:
    known = len(tables.steps)
    return SchemaTooNew(
        f"{path}: tables {tables.prefix}… are at step {found}, this app knows up to {known}; use the newer one",
        value=found,
        limit=known,
    )
