"""A hundred processes die at random instants under load; nothing is lost, nothing is done twice, nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from harness.plan import planned
from harness.sample_trial import SampleTrial
from harness.storm import PER_KILL, Storm, replayable

pytestmark = pytest.mark.crash

KILLS = 25
CREWS = [(1, 4), (1, 4), (2, 2), (3, 2)]  # workers and slots of each


@pytest.mark.parametrize("number", range(len(CREWS)))
def test_random_kills(number: int, seed: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Workers, a submitter and who steers are killed at random; the oracles are asked after each kill and at rest."""
    workers, slots = CREWS[number]
    with replayable(seed, f"'tests/crash/test_random_kills.py::test_random_kills[{number}]'"):
        trial = SampleTrial(tmp_path, planned(seed + number, KILLS * PER_KILL))
        tally = Storm(trial, seed + number, workers=workers, slots=slots).rage(KILLS)
    record_property("seed", seed + number)
    record_property("kills", tally.kills)
    assert tally.total == KILLS
