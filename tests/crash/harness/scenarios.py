"""Which process dies at which point, and what was there before it: one scenario for each protocol of the engine.

A scenario is driven with the sample application; those of Evidence's own protocols live in `evidence_trial`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness import children, oracles
from harness.processes import Victim
from harness.trial import Trial


class Scenario(NamedTuple):
    """What stands before, and the process that shall die at a point."""

    name: str
    prepare: Callable[[Trial], object]
    doomed: Callable[[Trial, str], Victim]


def _after_a_death(point: str, slots: int) -> Callable[[Trial], None]:
    """All is submitted, and a first worker died at this point."""

    def prepare(trial: Trial) -> None:
        trial.submit_all()
        worker = trial.worker(point, slots=slots)
        worker.end()
        oracles.require(worker.was_killed, f"the worker before the recovery dies at {point}", trial.said())

    return prepare


def _listen(trial: Trial, point: str) -> Victim:
    return trial.start("listener", lambda: children.deliver(trial.root, trial.delivered), point)


SUBMITTING = Scenario("submitting", lambda trial: None, Trial.submitter)
STEERING = Scenario("steering", Trial.submit_all, lambda trial, point: trial.steerer(7, point))
WORKING = Scenario("working", Trial.submit_all, Trial.worker)
RECOVERING_A_STAGE = Scenario("recovering a stage file", _after_a_death("publish.staged", 1), Trial.worker)
RECOVERING_A_CROWD = Scenario("recovering four attempts", _after_a_death("run.tool_spawned", 4), Trial.worker)
RECOVERING_A_RESULT = Scenario("recovering a result", _after_a_death("acknowledge.begun", 1), Trial.worker)
RECOVERING = (RECOVERING_A_STAGE, RECOVERING_A_CROWD, RECOVERING_A_RESULT)
LISTENING = Scenario("listening", Trial.work_off, _listen)

_BY_PROTOCOL = {
    "submit": (SUBMITTING,),
    "control": (STEERING,),
    "wake": (WORKING, RECOVERING_A_CROWD),
    "owner": (WORKING, RECOVERING_A_CROWD),
    "claim": (WORKING,),
    "run": (WORKING,),
    "progress": (WORKING,),
    "publish": (WORKING,),
    "acknowledge": (WORKING,),
    "recover": RECOVERING,
}
_BY_POINT = {"notice.acknowledged": (LISTENING,)}
OF_EVIDENCE = frozenset(
    {
        "create.catalogue_made",
        "publish.folder_made",
        "publish.leftover_removed",
        "publish.rolled_back",
        "publish.undone",
    }
)


def of_point(point: str) -> tuple[Scenario, ...]:
    """The scenarios of the sample application that visit this point; none when another test must visit it."""
    if point in OF_EVIDENCE:
        return ()
    return _BY_POINT.get(point) or _BY_PROTOCOL.get(point.partition(".")[0], ())
