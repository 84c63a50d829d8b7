"""Backoff: exponential, full jitter, bounded for every legal value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perenne.core import limits
from perenne.core.retry import Backoff
from perenne.errors import InvalidInput

LUCK = st.floats(0, 1, exclude_max=True)
BASES = st.floats(1e-6, limits.WAIT_MOST_S)


def test_the_default_is_a_second_up_to_five_minutes() -> None:
    """E-F2: base 1 s, cap 5 min: at full luck 1, 2, 4, 8 … 300 s."""
    most = [Backoff().delay_s(failures, 1.0) for failures in range(1, 12)]
    assert most == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@given(BASES, BASES, st.integers(1, 10**9), LUCK)
def test_a_wait_is_bounded(one: float, other: float, failures: int, luck: float) -> None:
    """However many failures, a wait is from 0 to the cap and never shrinks at equal luck."""
    backoff = Backoff(base_s=min(one, other), cap_s=max(one, other))
    wait_s = backoff.delay_s(failures, luck)
    assert 0 <= wait_s <= backoff.cap_s
    assert wait_s <= backoff.delay_s(failures + 1, luck)


@given(st.integers(1, 40), LUCK)
def test_the_jitter_is_full(failures: int, luck: float) -> None:
    """Luck spreads the wait over the whole range from nothing to the exponential bound."""
    backoff = Backoff()
    assert backoff.delay_s(failures, luck) == luck * backoff.delay_s(failures, 1.0)
    assert backoff.delay_s(failures, 0.0) == 0


@pytest.mark.parametrize(
    ("base_s", "cap_s"),
    [
        (0, 1),
        (-1, 1),
        (2, 1),
        (float("nan"), 1),
        (1, float("nan")),
        (1, float("inf")),
        (float("inf"), float("inf")),
        (1, 1e300),
    ],
)
def test_an_impossible_backoff_is_refused(base_s: float, cap_s: float) -> None:
    """The base is above 0 and at most the cap, and the cap is a time that can pass."""
    with pytest.raises(InvalidInput, match=r"backoff: (base_s|cap_s)"):
        Backoff(base_s=base_s, cap_s=cap_s)
