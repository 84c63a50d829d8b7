"""Every input that the fuzzer kept, because it reached something new, is asked again."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mail_mutations

CORPUS = Path(__file__).parents[4] / "crash/mail/corpus"


def test_the_corpus_keeps_every_promise() -> None:
    """Nothing in the corpus of `tests/crash/mail/fuzz.py` breaks a promise of the analyser."""
    inputs = sorted(CORPUS.iterdir())
    assert len(inputs) > 100
    said = {one.name: list(mail_mutations.faults(one.read_bytes())) for one in inputs}
    assert {name: faults for name, faults in said.items() if faults} == {}
