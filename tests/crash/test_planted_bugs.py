"""The oracles bite: each wrong variant of the engine is found by the general test, within its normal budget."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest
from harness import scenarios
from harness.matrix import kills_at
from harness.oracles import Violation
from harness.plan import planned
from harness.planted import PLANTED
from harness.sample_trial import SampleTrial
from harness.storm import PER_KILL, Storm, replayable
from harness.trial import Plant

from perenne import crashpoints

pytestmark = pytest.mark.crash

KILLS = 10

# What each variant must be found by; any other complaint would only say that the variant itself is broken.
FOUND_BY = {
    "acknowledges_before_publishing": "published exactly once|no new attempt once it is published",
    "recovers_without_looking": "a published result is found by recovery|published exactly once|no new attempt",
    "never_looks": "a published result is found|published exactly once|is not run again|no new attempt|ends well",
    "does_not_count_attempts": "what is spent is counted",
    "recovery_forgets_a_cancel": "no claim while cancel|a cancel that was granted",
    "recovery_forgets_a_pause": "no claim while pause",
    "discards_nothing": "no leftover of a publication|every job ends",
    "invents_ids_at_run_time": "published exactly once|fixed at submit|no leftover|a published result is found",
    "answers_before_the_commit": "a durable receipt is never lost|ends well",
    "counts_an_end_twice": "a queue counts its jobs",
    "recovery_writes_no_history": "history goes on from|history ends at",
    "recovery_releases_nobody": "unmet dependencies are counted|is released with the last",
    "leaves_pipes": "nothing is left in wake",
    "claims_what_is_paused": "no claim while its lane is paused",
    "leaves_no_notice_of_a_failure": "each end leaves one durable notice",
}


def general_test(folder: Path, seed: int, plant: Plant, tally: list[str]) -> None:
    """No more kills than the other tests make: in each round a point of every protocol, then a few at random.

    Args: tally: takes a word for each kill that went well.
    """
    for number, points in enumerate(rounds(random.Random(seed))):
        for point in points:
            for scenario in scenarios.of_point(point):
                tally += [point for _ in kills_at(point, scenario, folder / point, plant, passages=(1, 2))]
        trial = SampleTrial(folder / f"storm {number}", planned(seed + number, KILLS * PER_KILL), plant)
        Storm(trial, seed + number, workers=1 + number % 2).rage(KILLS)
        tally += ["random"] * KILLS


def rounds(luck: random.Random) -> list[list[str]]:
    """Every point, in rounds that take one of each protocol as long as it has any."""
    protocols: dict[str, list[str]] = {}
    for point in luck.sample(crashpoints.POINTS, len(crashpoints.POINTS)):
        protocols.setdefault(point.partition(".")[0], []).append(point)
    return [[point for point in taken if point] for taken in zip_longest(*protocols.values())]


def test_every_variant_is_expected() -> None:
    """Each variant has its promise, and there are enough of them."""
    assert set(PLANTED) == set(FOUND_BY)
    assert len(PLANTED) >= 12


@pytest.mark.parametrize("variant", PLANTED)
def test_found(variant: str, seed: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """The general test finds this variant, by the promise that it breaks."""
    tally: list[str] = []
    hint = f"'tests/crash/test_planted_bugs.py::test_found[{variant}]'"
    with replayable(seed, hint), pytest.raises(Violation, match=FOUND_BY[variant]) as found:
        general_test(tmp_path, seed, PLANTED[variant], tally)
    record_property("found by", str(found.value)[:300])
    record_property("kills that it survived", len(tally))
    print(len(tally), str(found.value)[:200])
