"""The rows of a ledger, read from outside: plain SQL on the file, through no line of the engine.

A reader here creates nothing, changes nothing and leaves no checkpoint behind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

Row = dict[str, Any]
_WORK = ("store", "queue", "job", "dependency", "owner", "attempt", "history")
TABLES = (*_WORK, "listener", "notice", "checkpoint", "artefact")


@dataclass(frozen=True)
class Rows:
    """Every row of the tables, as one moment saw them; lists in the order of their keys."""

    store: list[Row]
    queue: list[Row]
    job: list[Row]
    dependency: list[Row]
    owner: list[Row]
    attempt: list[Row]
    history: list[Row]
    listener: list[Row]
    notice: list[Row]
    checkpoint: list[Row]
    artefact: list[Row]

    def jobs(self) -> dict[int, Row]:
        """Jobs by their place."""
        return {row["seq"]: row for row in self.job}

    def of(self, table: str, job: Row) -> list[Row]:
        """The rows of a table that belong to a job."""
        return [row for row in getattr(self, table) if row["job"] == job["seq"]]


def read(path: Path) -> Rows:
    """All rows, in one read transaction."""
    with _reader(path) as connection:
        connection.execute("begin")
        return Rows(**{table: _all(connection, table) for table in TABLES})


def faults(path: Path) -> list[str]:
    """What SQLite itself finds wrong: broken pages, indexes, references."""
    with _reader(path) as connection:
        checked = [row[0] for row in connection.execute("pragma integrity_check") if row[0] != "ok"]
        return checked + [f"foreign key: {row}" for row in connection.execute("pragma foreign_key_check")]


def _all(connection: apsw.Connection, table: str) -> list[Row]:
    names = [column[1] for column in connection.execute(f"pragma table_info({table})")]
    if not names:
        return []  # a ledger of before there was such a table
    rows = connection.execute(f"select * from {table} order by 1").fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


@contextmanager
def _reader(path: Path) -> Iterator[apsw.Connection]:
    journal = Path(f"{path}-journal")
    if not journal.exists():
        with _opened(path, apsw.SQLITE_OPEN_READONLY) as connection:
            yield connection
        return
    # SQLite has to write before it can read what a journal would take back; it is let do so beside, and not in place.
    with tempfile.TemporaryDirectory(prefix="ledger-") as folder:
        for one in (path, journal):
            shutil.copy(one, folder)
        with _opened(Path(folder) / path.name, apsw.SQLITE_OPEN_READWRITE) as connection:
            yield connection


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path), flags=flags)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(10_000)
        yield connection
    finally:
        connection.close()
