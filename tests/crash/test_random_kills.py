"""A hundred processes die at random instants under load; nothing is lost, nothing is done twice, nothing is left."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.evidence_trial import MAILS, PICTURES, EvidenceTrial, has_exiftool
from harness.plan import planned
from harness.processes import Victim
from harness.sample_trial import SampleTrial
from harness.storm import PER_KILL, Storm, replayable

pytestmark = pytest.mark.crash

KILLS = 25
CREWS = [(1, 4), (2, 2), (4, 1), (4, 2)]  # workers and slots of each


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


def test_random_kills_of_evidence(seed: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Making, importing, submitting, analysing and exporting are killed at random instants, as users run them."""
    luck = random.Random(seed)
    with replayable(seed, "tests/crash/test_random_kills.py::test_random_kills_of_evidence"):
        trial = EvidenceTrial(tmp_path, with_picture=has_exiftool())
        trial.files = [*MAILS, *PICTURES]
        kill_at_random(trial.maker(), luck)
        trial.finish_making()
        tally = Counter({"maker": 1})
        while tally.total() < KILLS:
            role = luck.choice(("importer", "submitter", "worker", "worker", "worker", "exporter"))
            tally[role] += kill_at_random(getattr(trial, role)(), luck)
            trial.note_death()
        trial.finish()
        trial.ask_at_rest()
    record_property("kills", dict(tally))


def kill_at_random(victim: Victim, luck: random.Random) -> bool:
    """Kill it at a random instant; false when it had ended by itself before."""
    victim.is_over(within_s=luck.uniform(0, 0.1))
    return victim.kill()
