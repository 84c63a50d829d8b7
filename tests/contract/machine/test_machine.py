"""The ledger beside its model, whatever is done to it; and the proof that the machine would see it if it were wrong."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from machine import family_variants  # noqa: F401 - it plants its own
from machine.rules import LedgerMachine
from machine.trial import Disagreement
from machine.variants import VARIANTS, Variant

EXAMPLES = 200
FAST = settings(
    max_examples=EXAMPLES,
    stateful_step_count=35,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


# Minutes on a busy machine: run by `make crash`, not by `make test`.
pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]


# Shrinking may take five minutes; `PERENNE_SHRINK=1` asks for it. Without it the failure tells what was done last.
def test_the_ledger_does_as_the_model_says() -> None:
    """Submits, claims, ends, deaths, words, controls, clocks, restores and races leave what the model says."""
    phases = [Phase.generate, Phase.shrink] if os.environ.get("PERENNE_SHRINK") else [Phase.generate]
    run_state_machine_as_test(LedgerMachine, settings=settings(FAST, phases=phases))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_wrong_ledger_is_found(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each planted fault is found by the same machine within 200 examples."""
    variant.plant(monkeypatch)
    with pytest.raises(Disagreement):
        run_state_machine_as_test(LedgerMachine, settings=settings(FAST, phases=[Phase.generate]))


def test_enough_faults_are_planted() -> None:
    """The planted faults are many, each with a name and a sentence of its own."""
    assert len(VARIANTS) >= 12
    assert (
        len({variant.name for variant in VARIANTS}) == len({variant.sentence for variant in VARIANTS}) == len(VARIANTS)
    )
