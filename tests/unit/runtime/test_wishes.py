"""What is asked of an attempt: who comes first decides, hard wishes stop the tool, and a wish can be taken back."""

from __future__ import annotations

import itertools
import select

import pytest

from perenne.errors import Cancelled, Unwound
from perenne.runtime.wishes import HARD, ORDER, Wishes


def test_nothing_asked_lets_pass() -> None:
    """A boundary without a wish does nothing."""
    wishes = Wishes()
    wishes.meet()
    assert wishes.first is None
    assert wishes.stop.asked is None


@pytest.mark.parametrize(("early", "late"), list(itertools.combinations(ORDER, 2)))
def test_the_order_decides_and_not_the_time(early: str, late: str) -> None:
    """Of two wishes the one that stands first in E-S2 counts, whichever was asked first."""
    for asked in ((early, late), (late, early)):
        wishes = Wishes()
        for why in asked:
            wishes.ask(why)
        assert wishes.first == early


@pytest.mark.parametrize("why", ORDER)
def test_a_wish_is_met_by_unwinding(why: str) -> None:
    """A cancel raises Cancelled, all else Unwound; each boundary raises again."""
    wishes = Wishes()
    wishes.ask(why)
    for _ in range(2):
        with pytest.raises(Cancelled if why == "cancel" else Unwound, match=why):
            wishes.meet()


@pytest.mark.parametrize("why", ORDER)
def test_hard_wishes_stop_the_tool(why: str) -> None:
    """What a person asked, a limit and a lost right stop the running tool at once; the others only when pressed."""
    wishes = Wishes()
    wishes.ask(why)
    assert (wishes.stop.asked == why) == (why in HARD)
    wishes.ask(why, hard=True)
    assert wishes.stop.asked == why
    assert select.select([wishes.stop.fileno()], [], [], 0)[0]
    wishes.stop.close()


def test_a_wish_taken_back_is_forgotten() -> None:
    """A pause that was resumed before the boundary lets the handler go on; another wish still counts."""
    wishes = Wishes()
    wishes.ask("pause")
    wishes.take_back("pause")
    wishes.take_back("pause")
    wishes.meet()
    wishes.ask("suspend")
    wishes.take_back("pause")
    assert wishes.first == "suspend"
