"""Two thousand changed mails: nothing raises, nothing is slow, every raw text lies at its place, twice is the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import mail_mutations

SEEDS, BATCH = 2_000, 250


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_changed_mails_keep_every_promise(first: int) -> None:
    """Each promise of the analyser holds for each of these mails."""
    said = {seed: list(mail_mutations.faults(mail_mutations.mutated(seed))) for seed in range(first, first + BATCH)}
    assert {seed: faults for seed, faults in said.items() if faults} == {}


def test_the_oracle_sees_a_misplaced_text() -> None:
    """A raw text that does not lie at its place is found."""
    data = b"Subject: hello\n\nx"
    assert list(mail_mutations.misplaced(data, mail_mutations.analyse(data))) == []
    assert list(mail_mutations.misplaced(b" " + data, mail_mutations.analyse(data))) != []
