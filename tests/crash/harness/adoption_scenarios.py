"""Which process dies at which point while an investigation of the reference program is adopted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "reference"))

from reference_workspace import ID, named, seasoned

from harness import ledger_file, oracles
from harness.evidence_trial import DONE, FAILED, NEEDS_A_PERSON, EvidenceTrial
from harness.ledger_file import Rows
from harness.oracles import require
from harness.processes import Victim
from harness.scenarios import Scenario
from harness.trial import Plant, harmless

# What each job of a seasoned store ends as, once a worker has worked off what is left.
ENDS = {
    "done": "COMPLETED",
    "published": "COMPLETED",
    "interrupted": "COMPLETED",
    "unwanted": "CANCELLED",
    "exhausted": "DEAD",
    "waiting": "COMPLETED",
    "failed": "FAILED",
    "stuck": "BLOCKED",
    "cancelled": "CANCELLED",
    "doubted": "RECOVERY_REQUIRED",
    "limited": "BLOCKED",
    "limited again": "COMPLETED",
    "retried": "COMPLETED",
    "strange": "BLOCKED",
}


class AdoptionTrial(EvidenceTrial):
    """An investigation of the reference program, its store of version 1; adopted, then worked off."""

    rested = (DONE, FAILED, NEEDS_A_PERSON)

    def __init__(self, folder: Path, plant: Plant = harmless) -> None:
        super().__init__(folder, plant)
        self.files = []

    def adopter(self, point: str | None = None) -> Victim:
        return self.command("adopt", point=point)

    def note_death(self) -> None:
        """What is published is asked at rest; until the adoption is whole there may be no ledger to ask."""

    def finish(self) -> None:
        self.do("adopt")
        self.do("run", codes=self.rested)
        self.do("adopt")
        self.do("export")

    def ask_results(self, rows: Rows) -> None:
        states = {job["id"]: job["state"] for job in rows.job}
        ends = self.ends(rows)
        require(states == {named(word): end for word, end in ends.items()}, "every job is there, once", states)
        wanted = {named(f"{word} request") for word, end in ends.items() if end == "COMPLETED"}
        found = self.extractions()
        require(found == wanted, "every extraction is there, once", found ^ wanted)
        snapshot = json.loads((self.root / "jobs-snapshot.json").read_bytes())
        require(len(snapshot["jobs"]) == len(ENDS) and snapshot["investigation_id"] == ID, "the snapshot is whole")
        require("Traceback" not in self.log.read_text(), "no command ends with a traceback", self.said())

    def ends(self, rows: Rows) -> dict[str, str]:
        """What each job must have ended as."""
        return ENDS

    def extractions(self) -> set[str]:
        from perenne.apps.evidence import catalogue
        from perenne.apps.evidence import rows as evidence_rows

        with catalogue.reading(self.root) as connection:
            return set(evidence_rows.extraction_ids(connection))

    def ask_always(self) -> Rows:
        rows = self.rows()
        oracles.counters_are_exact(rows)
        for job in rows.job:  # all that `ask_ledger` asks, but of jobs that the reference blocked
            lines = rows.of("history", job)
            oracles.history_is_legal(job, lines)
            oracles.attempts_agree(job, rows.of("attempt", job), lines)
        return rows

    def ask_at_rest(self) -> None:
        rows = self.ask_always()
        require(not (found := ledger_file.faults(self.ledger)), "the ledger is whole", found)
        self.ask_results(rows)


def left_behind(trial: AdoptionTrial) -> None:
    """What the reference program left, killed at work."""
    trial.root.parent.mkdir(parents=True, exist_ok=True)
    seasoned(trial.root, 1)


def _half_made(trial: AdoptionTrial) -> None:
    left_behind(trial)
    trial.kill(trial.adopter("create.store_named"), "create.store_named")


def _adopting(trial: AdoptionTrial, point: str) -> Victim:
    return trial.adopter(point)


ADOPTING = Scenario("adopting", AdoptionTrial, left_behind, _adopting)
ADOPTING_AGAIN = Scenario("adopting again", AdoptionTrial, _half_made, _adopting)

BY_PROTOCOL: dict[str, tuple[Scenario[AdoptionTrial], ...]] = {
    "adopt": (ADOPTING,),
    "create": (ADOPTING,),
    "migrate": (ADOPTING,),
    "recover": (ADOPTING,),
}
BY_POINT = {"adopt.leftover_removed": (ADOPTING_AGAIN,)}


def of_point(point: str) -> tuple[Scenario[AdoptionTrial], ...]:
    """The scenarios of adoption in which this point may be passed."""
    return BY_POINT.get(point) or BY_PROTOCOL.get(point.partition(".")[0], ())
