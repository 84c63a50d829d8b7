"""Fixtures of the contract: a ledger on each driver, and a room in which jobs are brought into any state.

A driver joins by a house of its own in `HOUSES`. What stands in the database is always read from beside, through a
connection that the ledger does not know.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from perenne import sqlite
from perenne.core import events
from perenne.core.job import Job, Receipt, Submission, Token
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState
from perenne.store import intake
from perenne.store.driver import Driver, Transaction
from perenne.store.ledger import Claim, Lane, Ledger
from perenne.store.notices import Notices
from perenne.store.owners import Owner, Owners
from perenne.store.reader import Reader
from perenne.store.sqlite import driver as sqlite_driver

WORKSPACE = "82000000-0000-4000-8000-000000000001"
OWNER = "82000000-0000-4000-8000-0000000000aa"
START = 1_800_000_000_000_000
LANE = Lane("test.work", 1)
ERROR = events.Raised("boom", True, Backoff(base_s=10.0, cap_s=10.0))
Tables = dict[str, list[tuple[Any, ...]]]


class House(Protocol):
    """Where one kind of database lives, and how a test looks into it from beside."""

    def copy(self, folder: Path) -> House: ...
    def open(self) -> Driver: ...
    def tables(self) -> Tables: ...
    def raise_epoch(self) -> None: ...
    def plan(self, query: str, **values: object) -> list[str]: ...
    def steps(self, work: Callable[[], Any]) -> int: ...


class SQLiteHouse:
    """A ledger in one SQLite file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.sqlite"
        if not self.path.exists():
            sqlite_driver.create(self.path, workspace=WORKSPACE, now=START)

    def copy(self, folder: Path) -> SQLiteHouse:
        """The same ledger in another folder; nobody has it open."""
        for file in self.path.parent.iterdir():
            shutil.copy(file, folder)
        return SQLiteHouse(folder)

    def open(self) -> Driver:
        self._opened = sqlite_driver.SQLiteDriver(self.path, workspace=WORKSPACE)
        return self._opened

    def steps(self, work: Callable[[], Any]) -> int:
        """How many instructions the database carries out for one piece of work of the driver opened last."""
        counted = itertools.count()
        connection = self._opened._connection
        connection.set_progress_handler(lambda: next(counted) < 0, 1)
        try:
            work()
        finally:
            connection.set_progress_handler(None)
        return next(counted)

    def tables(self) -> Tables:
        """Every row of every table."""
        reader = sqlite.open(self.path, mode="read")
        try:
            names = [name for (name,) in reader.execute("select name from sqlite_schema where type = 'table'")]
            return {name: sorted(reader.execute(f"select * from {name}"), key=repr) for name in names}
        finally:
            reader.close()

    def raise_epoch(self) -> None:
        """As a restore does."""
        beside = sqlite.open(self.path, mode="write", busy_s=5)
        try:
            beside.execute("update store set epoch = epoch + 1")
        finally:
            beside.close()

    def plan(self, query: str, **values: object) -> list[str]:
        """The steps by which a named query is answered."""
        reader = sqlite.open(self.path, mode="read")
        try:
            explained = f"explain query plan {sqlite_driver.queries()[query]}"
            return [row[3] for row in reader.execute(explained, values)]
        finally:
            reader.close()


HOUSES = {"sqlite": SQLiteHouse}


class Room:
    """A ledger, a clock that stands still, and jobs in any state. Every job is `test.work@1` unless said otherwise.

    The ledger has the queue `default` and a worker that has joined.
    """

    ERROR, LANE, OWNER = ERROR, LANE, OWNER

    def __init__(self, house: House) -> None:
        self.house, self.now = house, START
        self._numbers = itertools.count(1)
        self.reopen()

    def reopen(self) -> None:
        """As a new process finds it."""
        self.driver = self.house.open()
        self.ledger, self.reader = Ledger(self.driver), Reader(self.driver)
        self.notices, self.owners = Notices(self.driver), Owners(self.driver)

    def id(self) -> str:
        """A new UUID of a job or an attempt."""
        return f"01998d3b-0000-7000-8000-{next(self._numbers):012x}"

    def wanted(self, **fields: Any) -> Submission:
        return Submission(**{"id": self.id(), "kind": "test.work", "version": 1, "input": b"{}", **fields})

    def submit(self, **fields: Any) -> Receipt:
        return self.ledger.submit(self.wanted(**fields), now=self.now, actor="person:test")

    def submit_many(self, wanted: Sequence[Submission]) -> list[str]:
        """The ids of many new jobs, in one transaction."""

        def work(tx: Transaction) -> list[str]:
            return [intake.find_or_insert(tx, one, self.now, "person:test").job_id for one in wanted]

        return self.driver.write(work)

    def claim(self, *lanes: Lane) -> Claim | None:
        return self.ledger.claim(lanes or (LANE,), owner=OWNER, attempt=self.id(), now=self.now)

    def running(self, **fields: Any) -> Token:
        """The token of a new job that is RUNNING."""
        return self.token(self.in_state(JobState.RUNNING, **fields))

    def end(
        self,
        token: Token,
        answer: events.Answer | None = None,
        published: Published | None = None,
        *,
        luck: float = 0.5,
        **fields: Any,
    ) -> list[Job]:
        ended = events.Ended(
            answer=answer or events.Returned(), published=published or Published.absent(), active_ms=5, **fields
        )
        return self.ledger.end(token, ended, now=self.now, luck=luck, actor=f"worker:{OWNER}")

    def settle(self, token: Token, published: Published | None = None) -> list[Job]:
        found = events.Interrupted(published or Published.absent())
        return self.ledger.settle(token, found, now=self.now, actor=f"worker:{OWNER}")

    def tell(self, job_id: str, event: events.Event) -> list[Job]:
        return self.ledger.tell(job_id, event, now=self.now, actor="person:test")

    def control(self, verb: Any, queue: str | None = None) -> None:
        self.ledger.control(verb, queue, now=self.now, actor="person:test")

    def job(self, job_id: str) -> Job:
        return self.reader.job(job_id)

    def state(self, job_id: str) -> JobState:
        return self.job(job_id).state

    def unfinished(self, queue: str = "default") -> int:
        return next(one.unfinished for one in self.reader.queues() if one.name == queue)

    def verbs(self, job_id: str) -> list[str]:
        """The history of one job as its verbs."""
        return [line.verb for line in self.reader.history(job_id=job_id)]

    def token(self, job_id: str) -> Token:
        """The token of the newest attempt of a job, or one that nobody ever had."""
        attempts = self.reader.attempts(job_id)
        if not attempts:
            return Token(job_id, "0" * 32, 0, 1)
        return Token(job_id, attempts[-1].id, attempts[-1].number, attempts[-1].epoch)

    def later(self, seconds: float) -> None:
        self.now += int(seconds * 1e6)

    def in_state(self, state: JobState, **fields: Any) -> str:
        """The id of a new job, brought into this state by the ledger alone."""
        if state is JobState.BLOCKED:
            fields = {**fields, "dependencies": (self.submit(kind="test.other").job_id,)}
        job_id = self.submit(**fields).job_id
        self.bring(job_id, state)
        return job_id

    def bring(self, job_id: str, state: JobState) -> None:
        """Bring a job that is QUEUED and the first of its kind into another state."""
        way = _WAYS.get(state)
        if isinstance(way, events.Event):
            self.tell(job_id, way)
        elif way is not None:
            job = self.job(job_id)
            claim = self.claim(Lane(job.kind, job.version))
            assert claim is not None
            assert claim.job.id == job_id, "another job was claimed"
            way(self, claim.token)


_WAYS: dict[JobState, Any] = {
    JobState.RUNNING: lambda room, token: None,
    JobState.PAUSED: events.Pause(),
    JobState.RETRY_WAIT: lambda room, token: room.end(token, ERROR),
    JobState.PAUSED_QUOTA: events.LackBudget("3 tokens missing"),
    JobState.RECOVERY_REQUIRED: lambda room, token: room.end(token, events.Doubted("who knows")),
    JobState.COMPLETED: lambda room, token: room.end(token),
    JobState.FAILED: lambda room, token: room.end(token, events.GaveUp("never")),
    JobState.CANCELLED: events.Cancel(),
    JobState.DEAD: lambda room, token: room.end(token, overrun="12 of 10 tokens"),
}


@pytest.fixture(scope="session", params=HOUSES)
def make_room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Room]:
    """`make_room(folder)`: an open new ledger on each driver, copied from one that was made and synced once."""
    first = Room(HOUSES[request.param](tmp_path_factory.mktemp("first")))
    first.ledger.add_queue("default", 128)
    first.owners.join(Owner(OWNER, 1, "boot", "start"), now=START)
    first.driver.close()
    return lambda folder: Room(first.house.copy(folder))


@pytest.fixture
def room(make_room: Callable[[Path], Room], tmp_path: Path) -> Iterator[Room]:
    """A room of the test's own."""
    room = make_room(tmp_path)
    yield room
    room.driver.close()
