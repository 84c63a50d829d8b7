"""The machine: acts that Hypothesis chooses, and takes away again when one fails, with others between them by luck.

Hypothesis likes to try the same again with one thing changed; luck makes everything after that different.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from machine import draws
from machine.acts import Acts


@st.composite
def arguments(draw: st.DrawFn, act: str) -> Any:
    return draws.ACTS[act](lambda choices: draw(st.sampled_from(choices)))


def act(name: str) -> Callable[..., None]:
    """The rule that does an act of the trial, and some more by luck."""

    def do(self: LedgerMachine, drawn: Any) -> None:
        getattr(self.trial, name)(*drawn)
        self.trial.live(self.by_luck)

    do.__name__ = name
    chosen: Callable[..., None] = rule(drawn=arguments(name))(do)
    return chosen


class LedgerMachine(RuleBasedStateMachine):
    """A trial whose acts are rules."""

    def __init__(self) -> None:
        super().__init__()
        self.trial = Acts()
        self.by_luck = 0

    def teardown(self) -> None:
        self.trial.site.leave()

    @initialize(seed=st.integers(0, (1 << 24) - 1), by_luck=st.sampled_from((0, 1, 2, 3)))
    def begin(self, seed: int, by_luck: int) -> None:
        """Args: by_luck: so many acts follow each one that Hypothesis chooses."""
        self.by_luck = by_luck
        self.trial.note(f"seed {seed}")
        self.trial.live(10 * by_luck)

    for name in draws.ACTS:
        vars()[name] = act(name)
    del name

    @invariant()
    def the_file_is_as_the_model_says(self) -> None:
        self.trial.compare()
