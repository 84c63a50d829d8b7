"""The two stores into which the sample application publishes: plain files in a folder, and rows of a SQLite table.

Each can be published to, looked at, and cleared of leftovers; both can be counted from outside the engine.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from perenne import Publication, Published, sqlite
from perenne.crashpoints import crash_point
from perenne.files import atomic

FOLDER = "published"
ROWS = "units.sqlite"
_STAGE = ".stage"
_SCHEMA = """
create table unit (id text primary key, job text not null, content text not null) strict;
create table draft (id text primary key, content text not null) strict;
"""


class Unit(NamedTuple):
    """One published result, as it is found from outside."""

    id: str
    job: str
    content: str


def content_of(publication: Publication) -> str:
    """What a job publishes: a pure function of its identity."""
    task = {"number": publication.input.number, "text": f"result {publication.input.number}"}
    return json.dumps(
        {"id": publication.ids["unit"], "job": publication.job_id, "as of": publication.requested_at, **task}
    )


def create(root: Path) -> None:
    """Both stores, empty."""
    atomic.make_folder(root / FOLDER)
    connection = sqlite.open(root / ROWS, mode="create")
    connection.execute(_SCHEMA)
    connection.close()


class Files:
    """One file a result: staged, synced, renamed."""

    @staticmethod
    def path(publication: Publication) -> Path:
        return publication.workspace / FOLDER / f"{publication.ids['unit']}.json"

    @classmethod
    def publish(cls, publication: Publication) -> None:
        path = cls.path(publication)
        staged = path.with_name(path.name + _STAGE)
        atomic.stage(staged, content_of(publication).encode(), protocol="publish")
        atomic.promote(staged, path, protocol="publish")

    @classmethod
    def lookup(cls, publication: Publication) -> Published:
        try:
            found = cls.path(publication).read_text()
        except FileNotFoundError:
            return Published.absent()
        return _judged(found, publication)

    @classmethod
    def discard(cls, publication: Publication) -> None:
        path = cls.path(publication)
        staged = path.with_name(path.name + _STAGE)
        if staged.exists():
            os.unlink(staged)
            crash_point("recover.leftover_removed")
            atomic.sync_folder(staged.parent)
            crash_point("recover.folder_synced")


class Rows:
    """One row a result, after a draft that a crash may leave behind."""

    @staticmethod
    def publish(publication: Publication) -> None:
        values = (publication.ids["unit"], content_of(publication))
        connection = sqlite.open(publication.workspace / ROWS, mode="write", busy_s=30)
        try:
            connection.execute("insert into draft (id, content) values (?, ?)", values)
            crash_point("publish.staged")
            connection.execute("begin immediate")
            connection.execute("delete from draft where id = ?", values[:1])
            row = (publication.ids["unit"], publication.job_id, values[1])
            connection.execute("insert into unit (id, job, content) values (?, ?, ?)", row)
            crash_point("publish.written")
            connection.execute("commit")
        finally:
            connection.close()
        crash_point("publish.committed")

    @staticmethod
    def lookup(publication: Publication) -> Published:
        connection = sqlite.open(publication.workspace / ROWS, mode="read", busy_s=30)
        try:
            found = connection.execute("select content from unit where id = ?", (publication.ids["unit"],)).get
        finally:
            connection.close()
        return Published.absent() if found is None else _judged(found, publication)

    @staticmethod
    def discard(publication: Publication) -> None:
        connection = sqlite.open(publication.workspace / ROWS, mode="write", busy_s=30)
        try:
            connection.execute("delete from draft where id = ?", (publication.ids["unit"],))
            if connection.changes():
                crash_point("recover.leftover_removed")
        finally:
            connection.close()


def result_of(publication: Publication) -> dict[str, Any]:
    """What the ledger keeps as the result of a job that published."""
    return {"published": publication.ids["unit"]}


def _judged(found: str, publication: Publication) -> Published:
    if found != content_of(publication):
        return Published.incoherent(f"it holds {found[:80]!r}")
    return Published.coherent(result_of(publication))


def published(root: Path) -> list[Unit]:
    """Every result in either store, by plain reading."""
    texts = [path.read_text() for path in sorted((root / FOLDER).glob("*.json"))]
    values = [json.loads(text) for text in texts]
    files = [Unit(value["id"], value["job"], text) for value, text in zip(values, texts, strict=True)]
    return files + [Unit(*row) for row in _rows(root, "select id, job, content from unit")]


def leftovers(root: Path) -> list[str]:
    """Whatever a dead attempt left between nothing and a result."""
    stages = [path.name for path in (root / FOLDER).iterdir() if path.suffix != ".json"]
    return stages + [f"draft {row[0]}" for row in _rows(root, "select id from draft")]


def _rows(root: Path, query: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(root / ROWS), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(10_000)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
