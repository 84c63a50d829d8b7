"""Every point, in every scenario that may pass it, at its first passage and at later ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.scenarios import Scenario
from harness.trial import Plant, harmless

PASSAGES = (1, 2, 4, 8)


def kills_at(
    point: str, scenario: Scenario[Any], folder: Path, plant: Plant = harmless, passages: Sequence[int] = PASSAGES
) -> Iterator[int]:
    """Let a process die at each of some passages of a point, as long as there is one; recover, and ask."""
    for passage in passages:
        trial = scenario.kill(folder / f"{scenario.name} {passage}", f"{point}:{passage}", plant)
        if trial is None:
            return
        trial.note_death()
        trial.finish()
        trial.ask_at_rest()
        yield passage
