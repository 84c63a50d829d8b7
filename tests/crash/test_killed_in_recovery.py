"""Recovery dies too, at each of its points and again and again; whoever comes last brings all to its end, once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import evidence_scenarios, scenarios
from harness.plan import planned
from harness.sample_trial import SampleTrial
from harness.scenarios import Scenario
from harness.storm import replayable
from harness.trial import Trial, harmless

from perenne import crashpoints

pytestmark = pytest.mark.crash

POINTS = [point for point in crashpoints.POINTS if point.startswith("recover.")]
PASSED_BESIDE = ["wake.pipe_made", "wake.pipe_named", "wake.pipe_removed", "owner.joined", "owner.left"]
TIMES = 4
ANY = [*scenarios.BY_PROTOCOL["recover"], *evidence_scenarios.BY_PROTOCOL["recover"]]


@pytest.mark.parametrize("point", POINTS)
def test_killed_again_and_again(point: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """The same point kills one recovery after another, as long as it is passed, at most four times."""
    able = [scenarios.RECOVERING_A_CHILD] if point.startswith("recover.child_") else ANY
    kills = {scenario.name: die_repeatedly(scenario, [point] * TIMES, tmp_path / scenario.name) for scenario in able}
    record_property("kills", kills)
    assert any(times >= 1 for times in kills.values()), f"no recovery died at {point}"


@pytest.mark.parametrize("scenario", ANY, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_killed_at_one_point_after_another(
    scenario: Scenario[Trial], seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Recoveries die at all points that a recovery passes, in random order and at random passages."""
    luck = random.Random(seed)
    points = [f"{point}:{luck.choice((1, 1, 2))}" for point in POINTS] + PASSED_BESIDE
    luck.shuffle(points)
    with replayable(seed, "tests/crash/test_killed_in_recovery.py"):
        kills = die_repeatedly(scenario, points, tmp_path)
    record_property("kills", kills)
    assert kills >= len(PASSED_BESIDE)


def test_two_recoveries_at_once(seed: int, tmp_path: Path) -> None:
    """Several workers that start beside the same dead one settle each of its attempts once."""
    with replayable(seed, "tests/crash/test_killed_in_recovery.py::test_two_recoveries_at_once"):
        for number in range(6):
            trial = SampleTrial(tmp_path / str(number), planned(seed + number, 20))
            trial.submit_all()
            trial.kill(trial.worker("acknowledge.begun:2", slots=4), "acknowledge.begun")
            trial.note_death()
            workers = [trial.worker(slots=2) for _ in range(3)]
            assert [worker.end() for worker in workers] == [0, 0, 0], trial.said()
            trial.finish()
            trial.ask_at_rest()


def die_repeatedly(scenario: Scenario[Trial], points: list[str], folder: Path) -> int:
    """Recoveries that die at these points one after the other, then one that does not; how many died."""
    trial = scenario.make(folder, harmless)
    scenario.prepare(trial)
    trial.note_death()
    died = 0
    for point in points:
        worker = trial.worker(point)
        worker.end()
        died += worker.was_killed
        trial.note_death()
    trial.finish()
    trial.ask_at_rest()
    return died
