"""Lifecycle, governor and recovery together: whatever is done, the ledger does as the model says; faults are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from governed.machine import Disagreement, over
from governed.variants import VARIANTS, Variant

FAST = settings(
    max_examples=200,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=False,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# A minute on a busy machine: run by `make crash`, not by `make test`.
pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


def test_the_governor_does_as_the_model_says(make_room: Any, tmp_path: Path) -> None:
    """Submits, claims, ends, breaks, deaths, words and time leave what the model says."""
    run_state_machine_as_test(over(make_room, tmp_path), settings=FAST)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_wrong_governor_is_found(
    make_room: Any, tmp_path: Path, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each planted fault is found by the same machine within 200 examples."""
    machine = over(make_room, tmp_path)
    variant.plant(monkeypatch)
    with pytest.raises(Disagreement):
        run_state_machine_as_test(machine, settings=FAST)


def test_enough_faults_are_planted() -> None:
    """They are many, each with a name and a sentence of its own."""
    assert len(VARIANTS) >= 12
    assert len({one.name for one in VARIANTS}) == len({one.sentence for one in VARIANTS}) == len(VARIANTS)
