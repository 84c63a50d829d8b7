"""The two that are compared: an engine, and a bare loop that writes the same row and commits.

Both write files of their own, opened the same way (WAL, `synchronous=FULL`, foreign keys, equal checkpoints). The bare
table has the columns and indexes of the ledger's job table, since it is made from the ledger's own schema.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import msgspec

import perenne
from perenne import App, Engine, Kind, sqlite
from perenne.core import identity
from perenne.files import workspace
from perenne.runtime import clock, luck, owner
from perenne.runtime.snapshot_keeper import Keeper, Watched
from perenne.store.sqlite import checkpoints, driver

JOBS_AT_MOST = 100_000_000

_CLAIM = """
update job
set state = 'RUNNING', attempt = ?, number = number + 1, spent = spent + 1, updated_at = ?
where seq = (
    select seq from job
    where queue = 'default' and kind = 'bench.case' and version = 1 and state in ('QUEUED', 'RETRY_WAIT') and due_at = 0
    order by rank, seq limit 1
)
returning seq
"""
_COMPLETE = """
update job set state = 'COMPLETED', attempt = null, result = null, finished_at = ?, updated_at = ? where seq = ?
"""


class Case(msgspec.Struct):
    """The typed input of the measured job."""

    name: str
    number: int


KIND = Kind("bench.case", 1, lambda context, case: None, Case)
APP = App("bench", [KIND], queues={"default": JOBS_AT_MOST})


def open_engine(root: Path, vfs: str | None, app: App = APP, *, work: bool = False) -> Engine:
    """An engine on a new workspace; through the VFS named, which the public door does not offer."""
    perenne.create(root, app, name="benchmark", specimen=True)
    return join(root, vfs, app, work=work)


def join(root: Path, vfs: str | None, app: App = APP, *, work: bool = False) -> Engine:
    """An engine on a workspace that is there."""
    found = workspace.read(root)
    holding = owner.take(found, alone=app.one_worker) if work else None
    opened = driver.SQLiteDriver(found.ledger, workspace=found.id, vfs=vfs)
    shown = Watched(opened, Keeper(found, opened, clock.SYSTEM))
    return Engine(found, app, shown, clock.SYSTEM, luck.SYSTEM, holding)


def submit(engine: Engine, count: int, threads: int = 1) -> float:
    """Seconds that so many durable submits take, shared out among threads."""

    def some(number: int) -> None:
        for one in range(number):
            engine.submit(KIND, Case("own-mail-01.eml", one))

    if threads == 1:
        started = time.perf_counter()
        some(count)
        return time.perf_counter() - started
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(some, [count // threads] * threads))
        return time.perf_counter() - started


def fill(engine: Engine, count: int, batch: int = 1_000) -> None:
    """Store so many jobs, a batch a transaction."""
    for start in range(0, count, batch):
        some = range(start, min(start + batch, count))
        engine.submit_many([engine.request(KIND, Case("own-mail-01.eml", number)) for number in some])


class BareLoop:
    """Make the row of a new job, insert it, commit, and nothing else."""

    def __init__(self, path: Path, like: Mapping[str, Any], vfs: str | None) -> None:
        sqlite.open(path, mode="create").close()
        self._connection = sqlite.open(path, mode="write", vfs=vfs)
        self._connection.pragma("wal_autocheckpoint", checkpoints.CHECKPOINT_PAGES)
        for statement in _job_table():
            self._connection.execute(statement)
        self._connection.execute(f"insert into queue (name, capacity) values ('{like['queue']}', {JOBS_AT_MOST})")
        self._like = {name: value for name, value in like.items() if name != "seq"}
        names = ", ".join(self._like)
        values = ", ".join(f":{name}" for name in self._like)
        self._insert = f"insert into job ({names}) values ({values})"

    def run(self, count: int) -> float:
        """Seconds that so many rows take."""
        execute, insert, row = self._connection.execute, self._insert, dict(self._like)
        started = time.perf_counter()
        for number in range(count):
            now = clock.SYSTEM.now()
            row["id"] = identity.job_id(now, os.urandom(10))
            row["input"] = msgspec.json.encode(Case("own-mail-01.eml", number))
            row["rank"] = row["submitted_at"] = row["requested_at"] = row["updated_at"] = now
            execute("begin immediate")
            execute(insert, row)
            execute("commit")
        return time.perf_counter() - started

    def store(self, count: int) -> None:
        """So many rows that wait, in one commit."""
        row = dict(self._like)
        self._connection.execute("begin immediate")
        for number in range(count):
            row["id"], row["rank"] = str(uuid.uuid4()), number
            self._connection.execute(self._insert, row)
        self._connection.execute("commit")

    def claim(self) -> int:
        """Take the first row that waits, and commit; its place."""
        execute = self._connection.execute
        execute("begin immediate")
        ((seq,),) = execute(_CLAIM, (str(uuid.uuid4()), clock.SYSTEM.now())).fetchall()
        execute("commit")
        return int(seq)

    def complete(self, seq: int) -> None:
        """Let a claimed row be done, and commit."""
        now = clock.SYSTEM.now()
        self._connection.execute("begin immediate")
        self._connection.execute(_COMPLETE, (now, now, seq))
        self._connection.execute("commit")

    def work(self, count: int) -> float:
        """Seconds that so many claims and so many completions take, a commit each; the rows are stored before."""
        self.store(count)
        started = time.perf_counter()
        for _ in range(count):
            self.complete(self.claim())
        return time.perf_counter() - started

    def close(self) -> None:
        self._connection.close()


def a_row_of(engine: Engine) -> dict[str, Any]:
    """One job that the engine stored, column by column."""
    submit(engine, 1)
    with contextlib.closing(sqlite.open(engine.workspace.ledger, mode="read")) as reader:
        (row,) = reader.execute("select * from job limit 1").fetchall()
        return dict(zip(_columns(reader), row, strict=True))


def _columns(reader: apsw.Connection) -> list[str]:
    return [row[0] for row in reader.execute("select name from pragma_table_info('job') order by cid")]


def _job_table() -> list[str]:
    """The statements of the ledger's schema that make the job table, its indexes, and the queue it refers to."""
    text = (Path(driver.__file__).parent / "schema.sql").read_text(encoding="utf-8")
    wanted = ("create table queue ", "create table job ")
    return [one for one in map(str.strip, text.split(";")) if one.startswith(wanted) or " on job (" in one]
