"""A process dies at each named crash point, by SIGKILL to itself; then the oracles are asked.

Each point is visited at its first passage and at later ones, in every protocol that may pass it, with the sample
application and with Evidence. A point that no scenario reaches fails by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import adoption_scenarios, evidence_scenarios, scenarios, upkeep_scenarios
from harness.matrix import kills_at
from harness.scenarios import Scenario

from perenne import crashpoints

pytestmark = pytest.mark.crash


def scenarios_of(point: str) -> list[Scenario[Any]]:
    books = (scenarios, evidence_scenarios, upkeep_scenarios, adoption_scenarios)
    return [scenario for book in books for scenario in book.of_point(point)]


@pytest.mark.parametrize("point", crashpoints.POINTS)
def test_killed(point: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Whoever dies at this point leaves what the next process brings to its end: all of it, once."""
    kills = {
        scenario.name: list(kills_at(point, scenario, tmp_path / str(number)))
        for number, scenario in enumerate(scenarios_of(point))
    }
    record_property("kills", kills)
    assert any(kills.values()), f"no process was killed at {point}; a scenario must reach it"
