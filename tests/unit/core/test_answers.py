"""What a handler may answer is checked where the handler makes it, so that its end can always be recorded."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core.answers import Doubt, GiveUp, Snooze
from perenne.core.publication import Published
from perenne.errors import InvalidInput


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e12, "5", None])
def test_a_snooze_is_a_time_that_can_pass(seconds: Any) -> None:
    """A snooze of no number, or beyond ten years, is refused with the limit."""
    with pytest.raises(InvalidInput, match=r"Snooze\.seconds: .* the limit is 315360000"):
        Snooze(seconds)


@pytest.mark.parametrize("seconds", [-1, 0, 0.5, 60, 315_360_000])
def test_a_short_snooze_is_taken(seconds: float) -> None:
    """A snooze below a second is taken; the rules make it one second long."""
    assert Snooze(seconds).seconds == seconds


@pytest.mark.parametrize(
    "make",
    [
        lambda: GiveUp(None),  # type: ignore[arg-type]
        lambda: Doubt(ValueError("x")),  # type: ignore[arg-type]
        lambda: Snooze(1, 5),  # type: ignore[arg-type]
        lambda: Published.incoherent(ValueError("x")),  # type: ignore[arg-type]
        lambda: Published("present"),  # type: ignore[arg-type]
    ],
)
def test_words_are_text(make: Any) -> None:
    """A reason or finding that is no text, or an unknown state, is refused where it is made."""
    with pytest.raises(InvalidInput):
        make()
