"""One workspace under trial: its processes, its journals, and the questions that every workspace is asked."""

from __future__ import annotations

import copy
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from harness import ledger_file, oracles, processes
from harness.journal import Journal
from harness.ledger_file import Rows
from harness.processes import Victim
from perenne import crashpoints

Plant = Callable[[], object]


def _copied(source: str, target: str) -> None:
    """A pipe as a pipe: those of the dead are there to be found."""
    if stat.S_ISFIFO(os.stat(source).st_mode):
        os.mkfifo(target, 0o600)
    else:
        shutil.copy(source, target)


def harmless() -> None:
    """No planted bug."""


class Trial(ABC):
    """A specimen workspace and everything that is known about it from outside.

    Args: folder: where workspace, journals and logs go. runtime: where the engine keeps its files, below the root.
    plant: a wrong variant, switched on in each child before it opens the workspace.
    """

    rested: tuple[int, ...] = (0,)  # exit codes of a worker that found nothing to do

    def __init__(self, folder: Path, runtime: str, plant: Plant = harmless) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.runtime = runtime
        self.plant = plant
        self._died_published: dict[str, int] = {}
        self._stand_in(folder)

    def _stand_in(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.log = folder / "children.log"
        self.accepted = Journal(folder / "accepted.jsonl")
        self.told = Journal(folder / "told.jsonl")

    def copied(self, folder: Path) -> Self:
        """Another trial that stands where this one does, in a folder of its own; nobody may be alive in this one."""
        shutil.copytree(self.folder, folder, copy_function=_copied)
        other = copy.copy(self)
        other._died_published = dict(self._died_published)
        other._stand_in(folder)
        return other

    def start(self, name: str, work: Callable[[], Any], point: str | None = None) -> Victim:
        """A child that does this work; it dies at the crash point, if one is given."""

        def planted() -> None:
            self.plant()
            work()

        return processes.fork(name, planted, self.log, {crashpoints.VARIABLE: point} if point else {})

    def run(self, name: str, work: Callable[[], Any], within_s: float = 60.0) -> None:
        """A child that must end well."""
        code = self.start(name, work).end(within_s)
        oracles.require(code == 0, f"{name} ends well", code, self.said())

    def kill(self, victim: Victim, where: str) -> None:
        """Wait for a child that must die by its crash point."""
        code = victim.end()
        oracles.require(victim.was_killed, f"{victim.name} dies at {where}", code, self.said())

    def said(self) -> str:
        """The last words of the children."""
        return self.log.read_text()[-2000:] if self.log.exists() else ""

    @property
    def own(self) -> Path:
        return self.root / self.runtime

    @property
    def ledger(self) -> Path:
        return self.own / "ledger.sqlite"

    def rows(self) -> Rows:
        return ledger_file.read(self.ledger)

    @abstractmethod
    def worker(self, point: str | None = None) -> Victim:
        """A process that recovers and works until nothing is due."""

    @abstractmethod
    def finish(self) -> None:
        """Let every process do again, undisturbed, what was asked of it; then let all work end."""

    @abstractmethod
    def ask_results(self, rows: Rows) -> None:
        """The questions about what the application published, at rest."""

    @abstractmethod
    def published_jobs(self) -> set[str]:
        """Ids of the jobs whose result stands in the application's own store."""

    def note_death(self) -> None:
        """No worker lives: ask what always holds, and remember which jobs are published but not acknowledged."""
        if not (self.root / "workspace.toml").exists():
            return
        running = [job for job in self.ask_always().job if job["state"] == "RUNNING"]
        published = self.published_jobs() if running else set()
        self._died_published |= {job["id"]: job["number"] for job in running if job["id"] in published}

    def ask_always(self) -> Rows:
        """The questions that hold at every instant."""
        rows = self.rows()
        oracles.ask_ledger(rows)
        return rows

    def ask_at_rest(self) -> None:
        """All questions, then recovery once more, which must change nothing."""
        rows = self.ask_always()
        oracles.published_is_recovered(rows, self._died_published)
        self.ask_results(rows)
        oracles.nothing_is_left(rows, self.root, self.own)
        oracles.require(not (found := ledger_file.faults(self.ledger)), "the ledger is whole", found)
        oracles.require(not (left := processes.survivors()), "no process is left", left)
        self._ask_again(rows)

    def _ask_again(self, before: Rows) -> None:
        """O7: another recovery finds nothing to do; only the worker that looked has signed in and out."""
        code = self.worker().end()
        oracles.require(code in self.rested, "the second recovery ends well", code, self.said())
        after = self.rows()
        for table in ledger_file.TABLES:
            if table != "owner":
                same = getattr(before, table) == getattr(after, table)
                oracles.require(same, "recovery run twice changes nothing", table)
        self.ask_results(after)
        oracles.nothing_is_left(after, self.root, self.own)
