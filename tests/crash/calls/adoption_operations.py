"""Taking over an investigation of the reference program, its store of version 1, as an operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.adoption_scenarios import ENDS, AdoptionTrial, left_behind, named
from harness.ledger_file import Rows
from harness.oracles import require

from calls.cases import refused
from calls.operation import Operation, Performance
from perenne import JobState
from perenne.apps.evidence.commands import adoption, opening


class Adopting(AdoptionTrial):
    """Remembers which files the reference program left. A person lets those go on of which nobody could tell."""

    before: frozenset[str] = frozenset()

    def finish(self) -> None:
        super().finish()
        self.run("person", lambda: _let_go_on(self))
        self.do("run", codes=self.rested)
        self.do("export")

    def ends(self, rows: Rows) -> dict[str, str]:
        """A fault while it was looked what is published leaves a doubt, whatever the reference program had asked."""
        resolved = {job["id"] for job in rows.job if "resolve" in [line["verb"] for line in rows.of("history", job)]}
        return {word: "COMPLETED" if named(word) in resolved else end for word, end in ENDS.items()}


def _let_go_on(trial: Adopting) -> None:
    with opening.opened(trial.root, "write") as engine:
        for job in engine.jobs(state=JobState.RECOVERY_REQUIRED):
            if job.id != named("doubted"):  # the reference program's own doubt
                engine.resolve(job.id, JobState.QUEUED, "looked at, and nothing wrong was found")


def _left(folder: Path) -> Adopting:
    trial = Adopting(folder)
    left_behind(trial)
    trial.before = _files(trial)
    return trial


def adopt(trial: Adopting, performance: Performance) -> None:
    with performance.counting():
        performance.tried("adopt", lambda: adoption.adopt(trial.root))


def _all_or_nothing(trial: Adopting, answers: list[dict[str, Any]]) -> None:
    """Every job came, or no file but a lock's: what was refused for sure made nothing, what was not made all."""
    new = _files(trial) - trial.before
    if trial.ledger.exists() and trial.rows().job:
        trial.ask_always()
        return
    require(any("error" in line for line in answers), "what was adopted is there", answers)
    require(not (new and refused(answers, "adopt")), "of what was refused no file is left", sorted(new), answers)


def _files(trial: Adopting) -> frozenset[str]:
    found = [path for path in trial.root.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return frozenset(str(path.relative_to(trial.root)) for path in found)


OPERATIONS = (Operation("adopt", _left, adopt, _all_or_nothing),)
