"""Performs one story on the recording file layer and writes the recording: `perform.py STORY SEED PLANTED FILE`.

This is a process of its own, since the recorder is below every SQLite file that it opens. `PLANTED` makes the ledger
wrong on purpose: `normal` and `off` sync less, `untouched` does not sync what it only saw, `statements` commits each
statement by itself, `none` is the ledger.
"""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw

from perenne import sqlite
from perenne.store import migrate
from perenne.store.sqlite import driver, pen, writer
from perenne.store.sqlite.driver import SQLiteDriver
from perenne.store.sqlite.statements import Statements
from powercut import questions, scenes, story
from powercut.recorder import Recorder
from powercut.recording import LEDGER
from powercut.story import Story

CHECKPOINT_PAGES = 60
ROUNDS = {"none": 3}  # one is enough to see what is planted
DATA = Path(__file__).parents[2] / "data"
MIGRATIONS = Path(driver.__file__).parent / "migrations"


class Statementwise:
    """A wrong driver: nothing holds its statements together."""

    def __init__(self, path: Path) -> None:
        self._sound = SQLiteDriver(path, workspace=story.WORKSPACE)
        self._connection = sqlite.open(path, mode="write")
        self._statements = Statements(self._connection, driver.queries())
        self._one = threading.Lock()  # a connection is used by one thread at a time, also by a wrong driver

    def write(self, work: Callable[[Any], Any], **wishes: Any) -> Any:
        with self._one:
            return work(self._statements)

    def close(self) -> None:
        self._connection.close()
        self._sound.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sound, name)


class Performance:
    """One story being recorded."""

    def __init__(self, folder: Path, seed: int, planted: str) -> None:
        self.path = folder / LEDGER
        self.planted = planted
        self.recorder = Recorder(seed, folder)
        self.acknowledged: list[tuple[str, questions.Facts]] = [("nothing", {})]
        self.story = Story(self._acknowledge, seed, lambda: self.recorder.note("seen"))
        self.driver: Any = None

    def _acknowledge(self, label: str, facts: questions.Facts) -> None:
        self.acknowledged.append((label, facts))
        self.recorder.note("ack", len(self.acknowledged) - 1)

    def open(self, **wishes: Any) -> None:
        """Open the ledger; again, if it was open."""
        self.close()
        if self.planted == "statements":
            self.driver = Statementwise(self.path)
        else:
            self.driver = SQLiteDriver(self.path, workspace=story.WORKSPACE, **wishes)
        self.story.use(self.driver, self._queued)

    def _queued(self) -> int:
        return 1 << 30 if self.planted == "statements" else len(self.driver._writer._waiting)

    def close(self) -> None:
        if self.driver is not None:
            self.driver.close()

    def live(self) -> None:
        """Created, some times through everything, each time closed, opened again, and old jobs removed."""
        driver.create(self.path, workspace=story.WORKSPACE, now=self.story.now)
        self.story.open_workspace()
        self.story.acknowledged("create")
        self.open()
        self.story.add_queue("default", 40)
        self.story.add_queue("lane", 1)
        self.story.listen("listener")
        for number in range(ROUNDS.get(self.planted, 1)):
            self.story.join()
            scenes.live(self.story)
            self.story.leave()
            self.open()
            self.story.purge(keep=4, step=3, history="kept" if number % 2 else "pruned")

    def migrate(self) -> None:
        """A ledger of the first version is brought up to today's, and used."""
        shutil.copyfile(DATA / "ledger-v1.sqlite", self.path)
        old = sqlite3.connect(f"file:{DATA / 'ledger-v1.sqlite'}?immutable=1", uri=True)
        self.story.facts.update(questions.facts(old))
        old.close()
        self.acknowledged[0] = ("nothing", dict(self.story.facts))
        self.open(may_migrate=True)
        self.story.acknowledged("migrate")
        self.story.join()
        self.story.submit()
        self.story.leave()

    def recording(self, name: str) -> dict[str, Any]:
        return {
            "story": name,
            "seed": self.story.seed,
            "planted": self.planted,
            "operations": self.recorder.operations,
            "acknowledged": self.acknowledged,
            "migrations": migrate.steps(MIGRATIONS),
            "sqlite": apsw.sqlite_lib_version(),
        }


def plant(planted: str) -> None:
    """Small WALs, so that they are copied and begun anew often; groups that wait for nobody; and the planted fault."""
    for module in [found for name, found in sys.modules.items() if name.startswith("perenne.store")]:
        if hasattr(module, "CHECKPOINT_PAGES"):
            vars(module)["CHECKPOINT_PAGES"] = CHECKPOINT_PAGES
    writer.GROUP_S = 60.0
    if planted in ("normal", "off"):
        _sync_less(planted)
    if planted == "untouched":
        pen.Pen.touch = lambda self: None


def _sync_less(synchronous: str) -> None:
    sound = sqlite.open

    def wrong(path: Path, *, mode: sqlite.Mode, **wishes: Any) -> apsw.Connection:
        connection = sound(path, mode=mode, **wishes)
        connection.pragma("synchronous", synchronous)
        return connection

    sqlite.open = wrong


def main() -> None:
    name, seed, planted, target = sys.argv[1:]
    plant(planted)
    shared_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="powercut-", dir=shared_memory if shared_memory.is_dir() else None))
    try:
        performance = Performance(folder, int(seed), planted)
        getattr(performance, name)()
        performance.close()
        Path(target).write_bytes(pickle.dumps(performance.recording(name)))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
