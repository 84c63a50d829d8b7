"""The operator's operations: making, migrating, purging, copying, restoring, exporting and importing a workspace."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
from harness import ledger_file, oracles
from harness.oracles import require
from harness.plan import Request
from harness.upkeep_scenarios import OLD_LEDGER

import perenne
from calls.cases import refused
from calls.operation import Operation, Performance
from calls.sample_operations import REQUESTS, Calm, request
from perenne import upkeep
from perenne.files import workspace
from perenne.store.retention import Rule


class Kept(Calm):
    """A workspace that was worked off before the operation, and whose jobs may be gone after it."""

    def finish(self) -> None:
        """Nothing is left to be done but what `settled` asks of the operation itself."""
        self.run("settle", lambda: self.settle())

    def settle(self) -> None:
        """Do the operation again, as a person would who does not know what became of it."""

    def ask_always(self) -> ledger_file.Rows:
        rows = self.rows()
        oracles.ask_ledger(rows)
        return rows

    def note_death(self) -> None:
        """No worker died."""

    def ask_at_rest(self) -> None:
        rows = self.ask_always()
        require(not (found := ledger_file.faults(self.ledger)), "the ledger is whole", found)
        oracles.nothing_is_left(rows, self.root, self.own)
        with perenne.open(self.root, self.app, access="read") as engine:
            require(len(engine.jobs()) == len(rows.job), "the engine opens what is there", rows.job)

    @property
    def other(self) -> Path:
        """A second folder."""
        return self.folder / "other"

    def outside(self, name: str) -> Path:
        """A name for what leaves the workspace: a new one each time."""
        taken = len(list(self.folder.glob(f"*-{name}")))
        return self.folder / f"{taken}-{name}"


def _kept(kind: type[Kept], requests: Sequence[Request] = REQUESTS) -> Callable[[Path], Kept]:
    def make(folder: Path) -> Kept:
        trial = kind(folder, requests)
        trial.submit_all()
        trial.run("finisher", lambda: _work_off(trial))
        return trial

    return make


def _work_off(trial: Kept, root: Path | None = None) -> None:
    with perenne.open(root or trial.root, trial.app, access="work") as engine:
        engine.work()


UNNEEDED = [request(number, "plain") for number in range(3)]  # nobody waits for them, so that all but one may go


class Purging(Kept):
    def settle(self) -> None:
        upkeep.purge(self.root, Rule(keep=0))
        _work_off(self)  # whoever next writes the snapshot removes what a killed writer of it left

    def ask_at_rest(self) -> None:
        super().ask_at_rest()
        rows = self.rows()
        lines = [line["reason"] for line in rows.history if line["verb"] == "purge"]
        removed = sum(int(line.split()[1]) for line in lines)
        require(removed == len(self.requests) - len(rows.job), "every removal is written down once", lines)


def purge(trial: Kept, performance: Performance) -> None:
    with performance.counting():
        performance.tried("purge", lambda: upkeep.purge(trial.root, Rule(keep=0)))


class BackingUp(Kept):
    def ask_at_rest(self) -> None:
        super().ask_at_rest()
        for saved in self.folder.glob("*-saved.sqlite"):
            require(ledger_file.read(saved) == self.rows(), "a backup that has its name holds every row")
            require(not ledger_file.faults(saved), "a backup is whole")


def back_up(trial: Kept, performance: Performance) -> None:
    target = trial.outside("saved.sqlite")
    with performance.counting():
        performance.tried("back up", lambda: upkeep.backup(trial.root, target))


def _nothing_named(pattern: str, step: str) -> Callable[[Kept, list[dict[str, Any]]], None]:
    def judge(trial: Kept, answers: list[dict[str, Any]]) -> None:
        named = sorted(path.name for path in trial.folder.glob(pattern))
        require(not (named and refused(answers, step)), "what was refused has no name", named, answers)

    return judge


class Restoring(Kept):
    def settle(self) -> None:
        upkeep.restore(self.root, self.folder / "0-saved.sqlite")

    def ask_at_rest(self) -> None:
        super().ask_at_rest()
        saved, rows = ledger_file.read(self.folder / "0-saved.sqlite"), self.rows()
        require(saved.store[0]["epoch"] < rows.store[0]["epoch"], "a restored store has a higher epoch")
        require(saved.job == rows.job, "a restored store holds the jobs of the backup")


def _backed_up(folder: Path) -> Kept:
    trial = _kept(Restoring)(folder)
    trial.run("back up", lambda: upkeep.backup(trial.root, trial.outside("saved.sqlite")))
    return trial


def restore(trial: Kept, performance: Performance) -> None:
    with performance.counting():
        performance.tried("restore", lambda: upkeep.restore(trial.root, trial.folder / "0-saved.sqlite"))


class Exporting(Kept):
    def settle(self) -> None:
        """Every export that has its name is taken in by a new workspace."""
        for number, file in enumerate(sorted(self.folder.glob("*-export.jsonl.file"))):
            new = self.other / str(number)
            perenne.create(new, self.app, name="taken in", specimen=True)
            adopted = upkeep.import_(new, file).adopted
            require(adopted is not None, "an export that has its name is whole", file)
        shutil.rmtree(self.other, ignore_errors=True)


def export(trial: Kept, performance: Performance) -> None:
    target = trial.outside("export.jsonl.file")
    with performance.counting():
        performance.tried("export", lambda: upkeep.export(trial.root, target))


class Importing(Kept):
    """The export of one workspace, and a new one that takes it in."""

    def settle(self) -> None:
        upkeep.import_(self.other, self.folder / "0-export.jsonl.file")
        _work_off(self, self.other)

    def ask_at_rest(self) -> None:
        super().ask_at_rest()
        new = workspace.read(self.other)
        rows = ledger_file.read(new.ledger)
        oracles.ask_ledger(rows)
        oracles.nothing_is_left(rows, new.root, new.own_folder)
        require(not (found := ledger_file.faults(new.ledger)), "the new ledger is whole", found)
        same = [(job["id"], job["state"]) for job in self.rows().job]
        require([(job["id"], job["state"]) for job in rows.job] == same, "every job came in once", rows.job)


def _exported(folder: Path) -> Kept:
    trial = _kept(Importing)(folder)
    trial.run("export", lambda: upkeep.export(trial.root, trial.outside("export.jsonl.file")))
    trial.run("create", lambda: perenne.create(trial.other, trial.app, name="new", specimen=True))
    return trial


def take_in(trial: Kept, performance: Performance) -> None:
    with performance.counting():
        performance.tried("import", lambda: upkeep.import_(trial.other, trial.folder / "0-export.jsonl.file"))


class Migrating(Kept):
    """A workspace whose ledger is of the first version."""

    def settle(self) -> None:
        upkeep.migrate(self.root, self.app)

    def ask_at_rest(self) -> None:
        rows = self.rows()
        require(not (found := ledger_file.faults(self.ledger)), "the ledger is whole", found)
        require(len(rows.job) == self.known, "every job came along", len(rows.job), self.known)
        require(not upkeep.plan(self.root), "the ledger is of today's version")

    known = 0


def _old(folder: Path) -> Kept:
    trial = Migrating(folder, REQUESTS)
    for path in trial.own.glob("ledger.sqlite*"):
        path.unlink()
    shutil.copyfile(OLD_LEDGER, trial.ledger)
    connection = apsw.Connection(str(trial.ledger))
    connection.pragma("journal_mode", "wal")  # as it was when it was in use
    connection.execute("update store set workspace = ?", (workspace.read(trial.root).id,))
    trial.known = connection.execute("select count(*) from job").get
    connection.close()
    return trial


def migrate(trial: Kept, performance: Performance) -> None:
    with performance.counting():
        performance.tried("migrate", lambda: upkeep.migrate(trial.root, trial.app))


class Making(Kept):
    """A folder in which a second workspace is made."""

    def settle(self) -> None:
        """What a kill leaves of it is refused by name, and makes way when a person removes the folder."""
        try:
            perenne.open(self.other, self.app).close()
        except perenne.errors.StorageError:
            shutil.rmtree(self.other, ignore_errors=True)
            perenne.create(self.other, self.app, name="made", specimen=True)

    def ask_at_rest(self) -> None:
        super().ask_at_rest()
        with perenne.open(self.other, self.app, access="read") as engine:
            queues = {queue.name: queue.capacity for queue in engine.queues()}
        require(queues == dict(self.app.queues), "a workspace that opens is whole", queues)


def make(trial: Kept, performance: Performance) -> None:
    with performance.counting():
        performance.tried("make", lambda: perenne.create(trial.other, trial.app, name="made", specimen=True))


def _nothing_is_made(trial: Kept, answers: list[dict[str, Any]]) -> None:
    left = sorted(path.name for path in trial.other.rglob("*") if path.is_file())
    require(not (left and refused(answers, "make")), "of what was refused no file is left", left)


OPERATIONS = (
    Operation(
        "make", lambda folder: Making(folder, REQUESTS), make, _nothing_is_made, repeated=frozenset(["StoreExists"])
    ),
    Operation("migrate", _old, migrate),
    Operation("purge", _kept(Purging, UNNEEDED), purge),
    Operation("back up", _kept(BackingUp), back_up, _nothing_named("*-saved.sqlite", "back up")),
    Operation("restore", _backed_up, restore),
    Operation("export", _kept(Exporting), export, _nothing_named("*-export.jsonl.file", "export")),
    Operation("import", _exported, take_in),
)
