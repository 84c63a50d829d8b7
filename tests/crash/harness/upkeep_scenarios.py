"""Which process of upkeep dies at which point: purging, backing up, restoring; and what is asked after it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from harness import ledger_file, oracles
from harness.oracles import require
from harness.plan import one_of_each
from harness.processes import Victim
from harness.sample_trial import SampleTrial
from harness.scenarios import Scenario
from harness.trial import Plant
from perenne import crashpoints
from perenne.files import workspace
from perenne.runtime import backup as upkeep
from perenne.runtime import clock
from perenne.runtime.pruner import Pruner
from perenne.store.retention import Retention, Rule
from perenne.store.sqlite import backup as copies
from perenne.store.sqlite.driver import SQLiteDriver

OLD_LEDGER = Path(__file__).parents[2] / "data" / "ledger-v1.sqlite"
ACTOR = "person:crash"


class UpkeepTrial(SampleTrial):
    """A workspace that is worked off, and one errand on it that is killed and then repeated."""

    errand: Callable[[UpkeepTrial], None]

    def __init__(self, folder: Path, plant: Plant) -> None:
        super().__init__(folder, one_of_each(), plant)

    def _stand_in(self, folder: Path) -> None:
        super()._stand_in(folder)
        self.saved = folder / "saved.sqlite"

    def doomed(self, point: str) -> Victim:
        def armed() -> None:
            crashpoints.arm(os.environ, specimen=True)
            type(self).errand(self)

        return self.start(type(self).__name__, armed, point)

    def finish(self) -> None:
        self.run(type(self).__name__, lambda: type(self).errand(self))

    def note_death(self) -> None:
        """No worker died, and the ledger may be damaged on purpose."""

    def ask_at_rest(self) -> None:
        rows = self.rows()
        oracles.ask_ledger(rows)
        require(not (found := ledger_file.faults(self.ledger)), "the ledger is whole", found)
        require(not (left := sorted(self.own.glob("*.stage-*"))), "no stage file is left", left)
        self.ask_errand(rows)

    def ask_errand(self, rows: ledger_file.Rows) -> None:
        """What is asked of this errand alone."""

    @contextmanager
    def opened(self) -> Iterator[SQLiteDriver]:
        found = workspace.read(self.root)
        driver = SQLiteDriver(found.ledger, workspace=found.id)
        try:
            yield driver
        finally:
            driver.close()


class Purging(UpkeepTrial):
    """Removes every job that may go, two a step."""

    def errand(self) -> None:
        with self.opened() as driver:
            pruner = Pruner(workspace.read(self.root), Retention(driver), clock.SYSTEM, ACTOR)
            pruner.purge(Rule(keep=0), step=2)

    def ask_errand(self, rows: ledger_file.Rows) -> None:
        newest = max(job["seq"] for job in rows.job)
        needed = {row["needs"] for row in rows.dependency}
        require(all(job["seq"] in needed | {newest} for job in rows.job), "what may go is gone", rows.job)
        lines = [line["reason"] for line in rows.history if line["verb"] == "purge"]
        removed = sum(int(line.split()[1]) for line in lines)
        ran = {row["owner"] for row in rows.attempt}
        require({row["id"] for row in rows.owner} <= ran, "who left and ran nothing that is kept is gone", rows.owner)
        require(removed == len(self.requests) - len(rows.job), "every removal is written down once", lines)


class BackingUp(UpkeepTrial):
    """Copies the ledger."""

    def errand(self) -> None:
        if not self.saved.exists():
            upkeep.backup(workspace.read(self.root), self.saved, copies=copies)

    def ask_errand(self, rows: ledger_file.Rows) -> None:
        saved = ledger_file.read(self.saved)
        require(saved == rows, "a backup holds every row")
        require(not ledger_file.faults(self.saved), "a backup is whole")


class Restoring(UpkeepTrial):
    """Puts a backup in the ledger's place."""

    def errand(self) -> None:
        upkeep.restore(workspace.read(self.root), self.saved, copies=copies, clock=clock.SYSTEM, actor=ACTOR)

    def ask_errand(self, rows: ledger_file.Rows) -> None:
        saved = ledger_file.read(self.saved)
        epochs = [ledger["store"][0]["epoch"] for ledger in (vars(saved), vars(rows))]
        require(epochs[0] < epochs[1], "a restored store has a higher epoch", epochs)
        same = [job["id"] for job in saved.job] == [job["id"] for job in rows.job]
        require(same, "a restored store holds the jobs of the backup", len(saved.job), len(rows.job))
        require(list(self.own.glob("ledger.sqlite.replaced-*")), "what was replaced is kept")


def _worked_off(trial: UpkeepTrial) -> None:
    trial.work_off()
    trial.work_off()  # a second worker, that finds nothing to do
    for owner in trial.rows().owner:  # as a worker leaves it that is killed after it left
        (trial.own / "owners" / f"{owner['id']}.lock").touch(mode=0o600)
    (trial.own / "ledger.sqlite.stage-0").write_bytes(b"left by a killed restore")
    if isinstance(trial, BackingUp | Purging):
        (trial.own / "ledger.sqlite.stage-0").unlink()


def _backed_up(trial: UpkeepTrial) -> None:
    _worked_off(trial)
    BackingUp.errand(trial)  # type: ignore[arg-type]


def _backed_up_and_damaged(trial: UpkeepTrial) -> None:
    _backed_up(trial)
    trial.ledger.write_bytes(b"not a database")


def _backed_up_long_ago(trial: UpkeepTrial) -> None:
    """The backup is of an older schema, so that it is migrated on the way."""
    _worked_off(trial)
    shutil.copyfile(OLD_LEDGER, trial.saved)
    connection = apsw.Connection(str(trial.saved))
    connection.execute("update store set workspace = ?", (workspace.read(trial.root).id,))
    connection.close()


def _scenario(name: str, trial: type[UpkeepTrial], prepare: Callable[[UpkeepTrial], None]) -> Scenario[UpkeepTrial]:
    return Scenario(name, trial, prepare, UpkeepTrial.doomed)


PURGING = _scenario("purging", Purging, _worked_off)
BACKING_UP = _scenario("backing up", BackingUp, _worked_off)
RESTORING = _scenario("restoring", Restoring, _backed_up)
RESTORING_OVER_DAMAGE = _scenario("restoring over damage", Restoring, _backed_up_and_damaged)
RESTORING_AN_OLD_ONE = _scenario("restoring an old one", Restoring, _backed_up_long_ago)

BY_PROTOCOL: dict[str, tuple[Scenario[UpkeepTrial], ...]] = {
    "purge": (PURGING,),
    "copy": (BACKING_UP, RESTORING),
    "backup": (BACKING_UP,),
    "restore": (RESTORING, RESTORING_OVER_DAMAGE),
    "migrate": (RESTORING_AN_OLD_ONE,),
}


def of_point(point: str) -> tuple[Scenario[UpkeepTrial], ...]:
    """The scenarios of upkeep in which this point may be passed."""
    return BY_PROTOCOL.get(point.partition(".")[0], ())
