"""A process dies at each named crash point, by SIGKILL to itself; then the oracles are asked.

Each point is visited at its first passage and at later ones. A point that no scenario reaches fails by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import scenarios
from harness.plan import one_of_each
from harness.scenarios import Scenario
from harness.trial import Trial

from perenne import crashpoints

pytestmark = pytest.mark.crash

POINTS = [point for point in crashpoints.POINTS if scenarios.of_point(point)]
PASSAGES = (1, 2, 3, 5, 8)


def killed_at(point: str, scenario: Scenario, folder: Path) -> Iterator[int]:
    """Let a process die at each of some passages of a point, as long as there is one; recover, and ask."""
    for passage in PASSAGES:
        trial = Trial(folder / f"{scenario.name} {passage}", one_of_each())
        scenario.prepare(trial)
        victim = scenario.doomed(trial, f"{point}:{passage}")
        code = victim.end()
        if not victim.was_killed:
            assert code == 0, trial.said()
            return
        trial.ask_always()
        trial.finish()
        trial.ask_at_rest()
        yield passage


@pytest.mark.parametrize("point", POINTS)
def test_killed(point: str, tmp_path: Path) -> None:
    """Whoever dies at this point leaves what the next worker brings to its end: all of it, once."""
    kills = [kill for scenario in scenarios.of_point(point) for kill in killed_at(point, scenario, tmp_path)]
    assert kills, f"no process reached {point}"
