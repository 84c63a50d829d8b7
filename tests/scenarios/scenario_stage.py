"""The stage of a scenario: one workspace, its worker processes, gates for its jobs, and looks from another process.

What does not live here: the application (`scenario_app`), and small disks (`scenario_disk`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import scenario_app

import perenne
from perenne import App, Engine, Job, crashpoints
from perenne.core import events
from perenne.core.job import Token
from perenne.core.publication import Published
from perenne.files.lock import Lock
from perenne.runtime.clock import SYSTEM, Clock
from perenne.runtime.doctor import doctor
from perenne.runtime.findings import Finding
from perenne.runtime.pruner import Pruner
from perenne.runtime.worker import Worker
from perenne.store import disagreements
from perenne.store.ledger import Claim, Lane, Ledger
from perenne.store.owners import Owner, Owners
from perenne.store.retention import Removed, Retention, Rule
from perenne.store.sqlite import inspection
from perenne.store.sqlite.driver import SQLiteDriver

PROGRAM = Path(scenario_app.__file__)
DAY_S = 86_400
RETURNED = events.Returned(b"1")

LOOK = """
import json, sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READWRITE)
connection.set_busy_timeout(10_000)
connection.pragma("foreign_keys", 1)
value = lambda found: found.hex() if isinstance(found, bytes) else found
print(json.dumps([[value(found) for found in row] for row in connection.execute(sys.argv[2])]))
"""


# Takes the write lock, or an old view, and keeps it until its standard input is closed.
_HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READWRITE)
connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
connection.set_busy_timeout(10_000)
connection.execute(sys.argv[2])
connection.execute("select count(*) from job").fetchall()
print("held", flush=True)
sys.stdin.read()
"""


def until(holds: Callable[[], Any], within_s: float = 20.0) -> float:
    """Seconds until it holds; fails when the time is over."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < within_s, "it never came to hold"
        time.sleep(0.002)  # reason: another process is observed from outside, which gives no signal
    return time.monotonic() - started


def stepped(seconds: float) -> Clock:
    """The clocks of a machine whose wall clock is wrong by so many seconds."""
    return Clock(lambda: SYSTEM.now() + int(seconds * 1e6), SYSTEM.monotonic)


@dataclass
class Hand:
    """A worker without a loop: its claims and reports are made one by one, whenever a test wants them."""

    driver: SQLiteDriver
    owner: Owner
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.driver)
        Owners(self.driver).join(self.owner, now=SYSTEM.now())

    def claim(self, kind: str = "act", now: int | None = None) -> Claim | None:
        return self.ledger.claim(
            [Lane(kind, 1)], owner=self.owner.id, attempt=os.urandom(16).hex(), now=now or SYSTEM.now()
        )

    def end(self, token: Token, answer: events.Answer = RETURNED, *, active_ms: int = 0) -> list[Job]:
        ended = events.Ended(answer=answer, published=Published.absent(), active_ms=active_ms)
        return self.ledger.end(token, ended, now=SYSTEM.now(), luck=0.0, actor=f"worker:{self.owner.id}")

    def settle(self, token: Token) -> list[Job]:
        found = events.Interrupted(Published.absent())
        return self.ledger.settle(token, found, now=SYSTEM.now(), actor="worker:settler")


class Stage:
    """One workspace and all that happens to it."""

    def __init__(self, folder: Path, app: App = scenario_app.app) -> None:
        self.folder, self.app = folder, app
        self.root = folder / "workspace"
        self.marks = folder / "marks"
        self.marks.mkdir(parents=True)
        self.workspace = perenne.create(self.root, app, name="scenes", specimen=True)

    def open(self, access: Any = "write", *, clock: Clock = SYSTEM) -> Engine:
        return perenne.open(self.root, self.app, access=access, clock=clock)

    def driver(self, **options: Any) -> SQLiteDriver:
        return SQLiteDriver(self.workspace.ledger, workspace=self.workspace.id, **options)

    @contextlib.contextmanager
    def hand(self, name: str = "hand", *, alive: bool = False, **options: Any) -> Iterator[Hand]:
        """A worker without a loop; not alive: it holds no lock, so that everybody else takes it for dead."""
        with contextlib.ExitStack() as held:
            if alive:
                lock = Lock.take(self.workspace.lock_of(name))
                assert lock is not None
                held.enter_context(lock)
            driver = self.driver(**options)
            held.callback(driver.close)
            yield Hand(driver, Owner(name, os.getpid(), "boot", "start"))

    def plan(self, *attempts: str) -> scenario_app.Plan:
        """The input of a job: which steps each of its attempts takes."""
        return {"folder": str(self.marks), "attempts": attempts or [""]}

    def submit(self, engine: Engine, *attempts: str, kind: str = "act", **wishes: Any) -> str:
        return engine.submit(kind, self.plan(*attempts), **wishes).job_id

    @contextlib.contextmanager
    def worker(self, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """A worker process, from when it holds its lock until the end of the block, where it is killed."""
        with self.starting(*options, **environment) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process

    @contextlib.contextmanager
    def starting(self, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, str(PROGRAM), str(self.root), *options]
        if self.app.one_worker:
            command.append("alone=yes")
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, env=os.environ | environment, **pipes)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def dies(self, *options: str, **environment: str) -> None:
        """Run a worker until it kills itself."""
        with self.worker(*options, **environment) as process:
            assert process.wait(30) == -signal.SIGKILL

    def runs(self, job_id: str) -> list[tuple[int, int]]:
        """Attempts of a job that began, with the process they began in, by the marks that they left."""
        names = [path.name.split(".") for path in self.marks.glob(f"{job_id}.[0-9]*")]
        return sorted((int(attempt), int(pid)) for _, attempt, pid in names)

    def until_runs(self, job_id: str, attempt: int = 1) -> int:
        """Wait until this attempt of the job has begun; in which process."""
        until(lambda: attempt in dict(self.runs(job_id)))
        return dict(self.runs(job_id))[attempt]

    def go(self, job_id: str, attempt: int) -> None:
        (self.marks / f"{job_id}.go.{attempt}").touch()

    def go_all(self) -> None:
        (self.marks / "go").touch()

    def written(self) -> list[str]:
        """Jobs whose page was really written, once for each time."""
        count = self.marks / "written"
        return count.read_text().split() if count.exists() else []

    def owner_of(self, pid: int) -> str:
        [[found]] = self.sql(f"select id from owner where pid = {pid} and left_at is null")
        return str(found)

    def lose_lock(self, pid: int) -> None:
        """Let the lock file of a living worker vanish, as a cleaner would: everybody now takes it for dead."""
        self.workspace.lock_of(self.owner_of(pid)).unlink()

    def sql(self, statement: str) -> list[list[Any]]:
        """What another process, with no rule of ours, finds or does in the ledger."""
        command = [sys.executable, "-c", LOOK, str(self.workspace.ledger), statement]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert answer.returncode == 0, answer.stderr
        found: list[list[Any]] = json.loads(answer.stdout)
        return found

    def rows(self, *tables: str) -> dict[str, list[list[Any]]]:
        """All that stands in these tables; in all of them when none is named."""
        names = tables or [row[0] for row in self.sql("select name from sqlite_schema where type = 'table' order by 1")]
        return {name: self.sql(f"select * from {name} order by 1, 2") for name in names}

    @contextlib.contextmanager
    def holding(self, begin: Literal["begin", "begin immediate"]) -> Iterator[subprocess.Popen[str]]:
        """Another process that is in the middle of a read, or holds the write lock, until the end of the block."""
        command = [sys.executable, "-c", _HOLD, str(self.workspace.ledger), begin]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.communicate(timeout=30)

    def log(self, message: str) -> int:
        """How many lines of the engine's log say this."""
        path = self.workspace.log_of("engine")
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(json.loads(line)["message"] == message for line in lines)

    def doctor(self, name: str, *, clock: Clock = SYSTEM) -> list[Finding]:
        """What the doctor says about one thing."""
        found = doctor(self.root, self.app, inspector=inspection, clock=clock)
        return [finding for finding in found if finding.name == name]

    def purge(self) -> Removed:
        """Remove every finished job, however young."""
        driver = self.driver()
        try:
            pruner = Pruner(self.workspace, Retention(driver), SYSTEM, "person:test", breathe=lambda seconds: None)
            return pruner.purge(Rule(older_than_s=0))
        finally:
            driver.close()

    def assert_sound(self) -> None:
        """The file is whole, references lead somewhere, and no two facts contradict each other."""
        assert self.sql("pragma integrity_check") == [["ok"]]
        assert self.sql("pragma foreign_key_check") == []
        driver = self.driver(mode="read")
        try:
            assert driver.read(disagreements.find) == []
        finally:
            driver.close()


def token_of(engine: Engine, job_id: str) -> Token:
    """The token of the newest attempt of a job."""
    newest = engine.attempts(job_id)[-1]
    return Token(job_id, newest.id, newest.number, newest.epoch)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What each call answers or raises, all of them made at one moment from threads of their own."""
    start = threading.Barrier(len(calls))
    answers: list[Any] = [None] * len(calls)

    def call(place: int) -> None:
        start.wait(30)
        try:
            answers[place] = calls[place]()
        except Exception as error:
            answers[place] = error

    threads = [threading.Thread(target=call, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a caller was never answered"
    return answers


@contextlib.contextmanager
def staying(worker: Worker) -> Iterator[None]:
    """A worker of this process at work until the end of the block."""
    thread = threading.Thread(target=lambda: worker.run(stay=True))
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(60)


@contextlib.contextmanager
def at(point: str, work: Callable[[], object]) -> Iterator[list[str]]:
    """Do some work when this process first passes the point, and before it goes on; the points passed."""
    passed: list[str] = []

    def observe(name: str) -> None:
        passed.append(name)
        if name == point and passed.count(point) == 1:
            work()

    crashpoints.observe(observe)
    try:
        yield passed
    finally:
        crashpoints.observe(None)
