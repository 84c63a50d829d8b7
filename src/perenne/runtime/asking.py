"""What is asked of the attempts that a worker holds: wishes of people, of the worker, and of the clock.

What does not live here: when it is looked for (`worker`), and how a wish is met (`wishes`).
"""

from __future__ import annotations

from perenne.runtime.slots import Slots
from perenne.runtime.wishes import Wishes
from perenne.store.reader import Reader


def pass_on(slots: Slots, reader: Reader, *, draining: bool) -> None:
    """Tell each attempt what the ledger says is asked of it now."""
    asked = reader.asked() if slots.held else {}
    for attempt, one in list(slots.held.items()):
        if attempt in asked:
            _pass(one.wishes, "cancel", asked[attempt].cancel)
            _pass(one.wishes, "pause", asked[attempt].pause)
            _pass(one.wishes, "suspend", asked[attempt].stop or draining)
            if asked[attempt].stop:
                one.wishes.ask("suspend", hard=True)


def pass_limits(slots: Slots, now: float) -> None:
    """Ask those to end whose active time is used up."""
    for one in list(slots.held.values()):
        left_s = one.left_s(now)
        if left_s is not None and left_s <= 0:
            one.wishes.ask("limit")


def of_all(slots: Slots) -> list[Wishes]:
    """The wishes of every attempt that has not ended."""
    return [one.wishes for one in list(slots.held.values()) if one.ended is None]


def _pass(wishes: Wishes, why: str, asked: bool) -> None:
    wishes.ask(why) if asked else wishes.take_back(why)
