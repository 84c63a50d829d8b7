"""Which process dies at which point, and what was there before it: one scenario for each protocol of the engine.

These are driven with the sample application; those of Evidence's own protocols are in `evidence_scenarios`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from harness.plan import in_children, keepers, one_of_each, outliving, walkers
from harness.processes import Victim
from harness.sample_trial import SampleTrial
from harness.trial import Plant, Trial, harmless

AnyTrial = TypeVar("AnyTrial", bound=Trial)


class Scenario(NamedTuple, Generic[AnyTrial]):
    """Where it happens, what stands before, and the process that shall die at a point."""

    name: str
    make: Callable[[Path, Plant], AnyTrial]
    prepare: Callable[[AnyTrial], object]
    doomed: Callable[[AnyTrial, str], Victim]

    def kill(self, folder: Path, point: str, plant: Plant = harmless) -> AnyTrial | None:
        """The trial after its process died at the point; None when it ended without passing it."""
        trial = self.make(folder, plant)
        self.prepare(trial)
        victim = self.doomed(trial, point)
        victim.end()
        return trial if victim.was_killed else None


def _sample(folder: Path, plant: Plant) -> SampleTrial:
    return SampleTrial(folder, one_of_each(), plant)


def _in_children(folder: Path, plant: Plant) -> SampleTrial:
    return SampleTrial(folder, in_children(), plant)


def _walking(folder: Path, plant: Plant) -> SampleTrial:
    return SampleTrial(folder, walkers(), plant)


def _walking_in_children(folder: Path, plant: Plant) -> SampleTrial:
    return SampleTrial(folder, walkers("sample.childwalk"), plant)


def _keeping(folder: Path, plant: Plant) -> SampleTrial:
    return SampleTrial(folder, keepers(), plant)


def _keeping_in_children(folder: Path, plant: Plant) -> SampleTrial:
    return SampleTrial(folder, keepers("sample.childkeep"), plant)


def _outliving(folder: Path, plant: Plant) -> SampleTrial:
    return SampleTrial(folder, outliving(60), plant)


def _after_a_death_before_its_child(trial: SampleTrial) -> None:
    trial.submit_all()
    trial.worker_with_a_deaf_child().kill()


def _after_a_death(point: str, slots: int) -> Callable[[SampleTrial], None]:
    """All is submitted, and a first worker died at this point."""

    def prepare(trial: SampleTrial) -> None:
        trial.submit_all()
        trial.kill(trial.worker(point, slots=slots), point)

    return prepare


def _submitted_and_held(trial: SampleTrial) -> None:
    trial.submit_all()
    trial.hold()


def _after_a_death_and(*verbs: str) -> Callable[[SampleTrial], None]:
    """A job ran, these things were asked of it, and its worker died before it heard of them."""

    def prepare(trial: SampleTrial) -> None:
        trial.submit_all()
        # One slot, so that nobody holds the write lock when the worker stands still.
        worker = trial.stopped_worker("run.looked_up", 1, slots=1)
        (running,) = (job["id"] for job in trial.rows().job if job["state"] == "RUNNING")
        trial.ask(*((verb, running) for verb in verbs))
        worker.kill()

    return prepare


SUBMITTING = Scenario("submitting", _sample, lambda trial: None, SampleTrial.submitter)
STEERING = Scenario("steering", _sample, SampleTrial.submit_all, lambda trial, point: trial.steerer(7, point))
WORKING = Scenario("working", _sample, SampleTrial.submit_all, SampleTrial.worker)
WORKING_UNDER_A_PAUSE = Scenario("under a pause", _sample, _submitted_and_held, SampleTrial.worker)
LISTENING = Scenario("listening", _sample, SampleTrial.work_off, SampleTrial.listener)
REGISTERING = Scenario("registering", _sample, lambda trial: None, SampleTrial.registrar)
RECOVERING_A_STAGE = Scenario("recovering a stage", _sample, _after_a_death("publish.staged", 1), SampleTrial.worker)
RECOVERING_A_CROWD = Scenario("recovering a crowd", _sample, _after_a_death("run.tool_spawned", 4), SampleTrial.worker)
RECOVERING_A_RESULT = Scenario(
    "recovering a result", _sample, _after_a_death("acknowledge.begun", 1), SampleTrial.worker
)

RECOVERING_A_SNAPSHOT = Scenario(
    "recovering a snapshot", _sample, _after_a_death("snapshot.staged", 1), SampleTrial.worker
)
RECOVERING_A_CANCEL = Scenario("recovering a cancel", _sample, _after_a_death_and("cancel"), SampleTrial.worker)
RECOVERING_A_PAUSE = Scenario("recovering a pause", _sample, _after_a_death_and("pause"), SampleTrial.worker)
RECOVERING = (
    RECOVERING_A_STAGE,
    RECOVERING_A_CROWD,
    RECOVERING_A_RESULT,
    RECOVERING_A_CANCEL,
    RECOVERING_A_PAUSE,
)

WORKING_IN_CHILDREN = Scenario("in children", _in_children, SampleTrial.submit_all, SampleTrial.worker)
RECOVERING_A_CHILD = Scenario("recovering a child", _outliving, _after_a_death_before_its_child, SampleTrial.worker)
SAVING = Scenario("saving", _walking, SampleTrial.submit_all, SampleTrial.worker)
SAVING_IN_CHILDREN = Scenario("saving in children", _walking_in_children, SampleTrial.submit_all, SampleTrial.worker)
GOING_ON = tuple(
    Scenario(f"going on after {step}", _walking, _after_a_death(f"checkpoint.{step}:2", 1), SampleTrial.worker)
    for step in ("staged", "committed", "renamed")
)

KEEPING = Scenario("keeping", _keeping, SampleTrial.submit_all, SampleTrial.worker)
KEEPING_IN_CHILDREN = Scenario("keeping in children", _keeping_in_children, SampleTrial.submit_all, SampleTrial.worker)
RECOVERING_BYTES = Scenario("recovering bytes", _keeping, _after_a_death("artefact.linked", 1), SampleTrial.worker)

BY_PROTOCOL: dict[str, tuple[Scenario[SampleTrial], ...]] = {
    "submit": (SUBMITTING,),
    "control": (STEERING,),
    "wake": (WORKING, RECOVERING_A_CROWD),
    "owner": (WORKING, RECOVERING_A_CROWD),
    "claim": (WORKING, WORKING_UNDER_A_PAUSE),
    "run": (WORKING,),
    "progress": (WORKING,),
    "publish": (WORKING,),
    "acknowledge": (WORKING,),
    "snapshot": (WORKING, RECOVERING_A_SNAPSHOT),
    "notice": (LISTENING, REGISTERING),
    "checkpoint": (SAVING, SAVING_IN_CHILDREN, *GOING_ON),
    "artefact": (KEEPING, KEEPING_IN_CHILDREN, RECOVERING_BYTES),
    "recover": RECOVERING,
}
WITH_CHILDREN = {"run": (WORKING_IN_CHILDREN,), "recover": (RECOVERING_A_CHILD,)}


def of_point(point: str) -> tuple[Scenario[SampleTrial], ...]:
    """The scenarios of the sample application in which this point may be passed."""
    protocol, _, step = point.partition(".")
    return (WITH_CHILDREN if step.startswith("child_") else BY_PROTOCOL).get(protocol, ())
