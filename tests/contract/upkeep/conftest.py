"""What the tests of migration, purge, export, backup, restore and doctor share: workspaces, kills, injected errors."""

from __future__ import annotations

import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

import perenne
from perenne import App, Kind, crashpoints, sqlite
from perenne.core import events
from perenne.core.job import Submission, Token
from perenne.core.publication import Published
from perenne.files import workspace as folder
from perenne.files.workspace import Workspace
from perenne.runtime.clock import Clock
from perenne.store.ledger import Lane, Ledger
from perenne.store.owners import Owner, Owners
from perenne.store.reader import Reader
from perenne.store.sqlite.driver import SQLiteDriver

DATA = Path(__file__).parents[2] / "data"
FULL = "00000000-0000-4000-8000-000000000001"
SECOND = 1_000_000
NOW = 1_750_000_000 * SECOND
APP = App("upkeep", [Kind("note", 1, lambda context, text: text, str)], queues={"default": 100_000})


class Place:
    """A workspace with its ledger open, and a clock that the test holds."""

    def __init__(self, root: Path) -> None:
        self.workspace: Workspace = folder.read(root)
        self.driver = SQLiteDriver(self.workspace.ledger, workspace=self.workspace.id)
        self.ledger, self.reader, self.owners = Ledger(self.driver), Reader(self.driver), Owners(self.driver)
        self.now = NOW
        self._ids = count(1)
        self.owner = Owner("11111111-1111-4111-8111-111111111111", os.getpid(), "boot", "1")

    def tick(self, seconds: float = 1) -> int:
        self.now += round(seconds * SECOND)
        return self.now

    def submit(self, *needs: str, kind: str = "note", **values: Any) -> str:
        id = f"22222222-2222-4222-8222-{next(self._ids):012d}"
        wanted = Submission(id=id, kind=kind, version=1, input=b'"text"', dependencies=needs, **values)
        return self.ledger.submit(wanted, now=self.tick(), actor="person:test").job_id

    def claim(self, kind: str = "note") -> Token:
        self.owners.join(self.owner, now=NOW)
        attempt = f"{next(self._ids):032x}"
        claim = self.ledger.claim([Lane(kind, 1)], owner=self.owner.id, attempt=attempt, now=self.tick())
        assert claim is not None
        return claim.token

    def end(self, token: Token, answer: events.Answer) -> None:
        ended = events.Ended(answer=answer, published=Published.absent(), active_ms=7)
        self.ledger.end(token, ended, now=self.tick(), luck=0.5, actor=f"worker:{self.owner.id}")

    def complete(self, *needs: str, **values: Any) -> str:
        """A job that is done."""
        id = self.submit(*needs, **values)
        self.end(self.claim(), events.Returned(b'"done"'))
        return id

    def cancel(self, id: str) -> str:
        self.ledger.tell(id, events.Cancel(), now=self.tick(), actor="person:test")
        return id

    def ids(self) -> set[str]:
        return {job.id for job in self.reader.jobs()}

    def fill(self, count: int, state: str = "'COMPLETED'", input: str = "x''") -> None:
        """Many finished jobs with the line of their birth, quickly; `state` and `input` are SQL over their number i."""
        numbers = f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})"
        self.rows(
            f"{numbers} insert into job (seq, id, kind, version, queue, state, reason, priority, rank, submitted_at, "
            f"born, input, publications, requested_at, on_dependency, max_attempts, updated_at, finished_at) "
            f"select i, printf('ffffffff-ffff-4fff-8fff-%012d', i), 'note', 1, 'default', {state}, '', 0, i, i, "
            f"i, {input}, '{{}}', i, 'block', 3, i, i from n"
        )
        self.rows(
            "insert into history (seq, job, subject, verb, to_state, reason, actor, at) "
            "select born, seq, 'job:' || id, 'submit', 'QUEUED', 'submitted', 'person:test', 1 from job"
        )

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What stands in the file, asked behind the program's back, from a connection of its own."""
        return Trouble.rows(self.workspace.ledger, statement)

    def clock(self) -> Clock:
        return Clock(lambda: self.now, time.monotonic)

    def close(self) -> None:
        self.driver.close()


class Trouble:
    """Kills, injected errors, and looks behind the program's back."""

    @staticmethod
    def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
        """What one statement answers, from a connection that no rule of ours binds."""
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.pragma("ignore_check_constraints", 1)
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    @staticmethod
    def dies_at(point: str, work: Callable[[], object]) -> bool:
        """Do the work in a child armed with one crash point; whether it was killed there.

        No store may be open in this process meanwhile.
        """

        def armed() -> None:
            crashpoints.arm({crashpoints.VARIABLE: point}, specimen=True)
            work()

        return Trouble.dies(armed)

    @staticmethod
    def dies(work: Callable[[], object]) -> bool:
        """Do the work in a child; whether it was killed. A child that fails fails the test."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        if os.WIFEXITED(ended):
            assert os.WEXITSTATUS(ended) == 0, "the child failed"
            return False
        assert os.WTERMSIG(ended) == signal.SIGKILL
        return True

    @staticmethod
    @contextmanager
    def fails_at(point: str, error: BaseException | None = None) -> Iterator[None]:
        """Raise when the crash point is passed, as a failing call at that place would."""

        def observer(name: str) -> None:
            if name == point:
                raise error or RuntimeError("injected")

        crashpoints.observe(observer)
        try:
            yield
        finally:
            crashpoints.observe(None)

    @staticmethod
    def passed(work: Callable[[], object]) -> list[str]:
        """The crash points that the work passes, in order."""
        names: list[str] = []
        crashpoints.observe(names.append)
        try:
            work()
        finally:
            crashpoints.observe(None)
        return names

    @staticmethod
    def contents(root: Path) -> dict[str, bytes | None]:
        """Every file of a folder with its bytes; those of shared memory, where readers leave marks, without."""
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            if path.is_file() and not path.name.endswith("-shm")
            else None
            for path in sorted(root.rglob("*"))
        }


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture
def app() -> App:
    return APP


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Makes workspaces, by name, and opens them; closed when the test is over."""
    places: list[Place] = []

    def make_one(name: str = "workspace", *, again: bool = False) -> Place:
        if not again:
            perenne.create(tmp_path / name, APP, name=name, specimen=True)
        place = Place(tmp_path / name)
        places.append(place)
        return place

    yield make_one
    for place in places:
        place.close()


@pytest.fixture
def place(make: Callable[..., Place]) -> Place:
    """An open workspace."""
    return make()


@pytest.fixture
def full(tmp_path: Path, make: Callable[..., Place]) -> Place:
    """An open workspace with a job in every state, attempts, a dependency, notices, keys, and a worker that died."""
    perenne.create(tmp_path / "full", APP, name="full", id=FULL, specimen=True)
    path = folder.read(tmp_path / "full").ledger
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink()
    shutil.copyfile(DATA / "ledger-v1.sqlite", path)
    path.chmod(0o600)
    SQLiteDriver(path, workspace=FULL, may_migrate=True).close()
    return make("full", again=True)


@pytest.fixture
def old_ledger(tmp_path: Path) -> Callable[[int], Path]:
    """A private copy of the ledger that the program of a published schema version wrote."""

    def copy(version: int) -> Path:
        path = tmp_path / "old.sqlite"
        for end in ("-wal", "-shm", "-journal"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        shutil.copyfile(DATA / f"ledger-v{version}.sqlite", path)
        sqlite.open(path, mode="write").close()  # as a live one: with its WAL
        return path

    return copy
