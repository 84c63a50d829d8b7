"""Evidence's operations: making an investigation, importing, publishing, recovering, exporting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import evidence_oracles
from harness.evidence_trial import DONE, EvidenceTrial
from harness.oracles import require

import perenne
from calls.cases import refused
from calls.operation import Operation, Performance
from calls.sample_operations import LATER, _let_go_on
from perenne.apps.evidence import app, originals
from perenne.apps.evidence.commands import exporting, opening

IMPORTED_AT = "2026-01-01T00:00:00Z"


class Investigation(EvidenceTrial):
    """An investigation with mails only; a person lets every job go on that waits for one."""

    def finish(self) -> None:
        if self.files:
            self.do("import", *self.files)
        self.submit()
        self.run("finisher", lambda: _finish(self))

    def ask_results(self, rows: Any) -> None:
        super().ask_results(rows)
        require(all(job["state"] == "COMPLETED" for job in rows.job), "one fault ends no job for ever", rows.job)


def _finish(trial: EvidenceTrial) -> None:
    with perenne.open(trial.root, app, access="work", clock=LATER) as engine:
        engine.work()
        while sum([_let_go_on(engine, job) for job in engine.jobs()]):
            engine.work()
        exporting.export(engine)


def _made(folder: Path) -> Investigation:
    trial = Investigation(folder)
    trial.files = trial.files[:1]
    trial.do("init-specimen")
    return trial


def _submitted(folder: Path) -> Investigation:
    """Only the specimen's own mail: one publication."""
    trial = _made(folder)
    trial.files = []
    trial.submit()
    return trial


def _after_a_death(point: str) -> Callable[[Path], Investigation]:
    def make(folder: Path) -> Investigation:
        trial = _submitted(folder)
        trial.kill(trial.worker(point), point)
        return trial

    return make


def take_in(trial: Investigation, performance: Performance) -> None:
    with performance.counting():
        performance.tried("import", lambda: originals.import_files(trial.root, trial.files, imported_at=IMPORTED_AT))


def _all_or_nothing(trial: Investigation, answers: list[dict[str, Any]]) -> None:
    """Of a selection that was refused no row stands, and no copy without one."""
    query = f"select relative_path from preuves where relative_path like '{evidence_oracles.ORIGINALS}/%'"
    rows = {row[0] for row in evidence_oracles.asked(trial.root, query)}
    files = {
        str(path.relative_to(trial.root))
        for path in (trial.root / evidence_oracles.ORIGINALS).rglob("*")
        if path.is_file()
    }
    # A commit that failed half-way, by its own word: all stands or nothing.
    doubtful = any("read back what was committed" in line.get("said", "") for line in answers)
    allowed = (2, 3) if doubtful or not refused(answers, "import") else (2,)
    require(len(rows) in allowed, "of what was refused no row stands", rows)
    require(rows <= files, "every row has its file", rows, files)


def publish(trial: Investigation, performance: Performance) -> None:
    with performance.counting():
        performance.tried("work", lambda: _work(trial))


def _work(trial: Investigation) -> None:
    with opening.opened(trial.root, "work") as engine:
        originals.sweep(trial.root)
        engine.work()


def export(trial: Investigation, performance: Performance) -> None:
    with performance.counting():
        performance.tried("export", lambda: _export(trial))


def _export(trial: Investigation) -> None:
    with opening.opened(trial.root, "write") as engine:
        exporting.export(engine)


class New(Investigation):
    """A folder in which an investigation is made."""

    def finish(self) -> None:
        """What a kill leaves of it is refused by name, and makes way when a person moves it."""
        self.finish_making()
        super().finish()

    def note_death(self) -> None:
        if self.ledger.exists() and self.command("status").end() == DONE:
            super().note_death()


def _nothing(folder: Path) -> New:
    trial = New(folder)
    trial.files = trial.files[:1]
    return trial


def make(trial: New, performance: Performance) -> None:
    with performance.counting():
        performance.tried("make", lambda: opening.create_specimen(trial.root))


def _nothing_is_made(trial: New, answers: list[dict[str, Any]]) -> None:
    left = sorted(str(path.relative_to(trial.root)) for path in trial.root.rglob("*") if path.is_file())
    require(not (left and refused(answers, "make")), "of what was refused nothing is left", left)


OPERATIONS = (
    Operation("make an investigation", _nothing, make, _nothing_is_made, repeated=frozenset(["StoreExists"])),
    Operation("import evidence", _made, take_in, _all_or_nothing),
    Operation("publish", _submitted, publish),
    Operation("recover a publication", _after_a_death("publish.renamed"), publish),
    Operation("export a snapshot", _submitted, export),
)
