"""The jobs of this bench: they save at every step, now little, now more than fits a row, and go on from there.

In a recording they say what is acknowledged; woken up from an image they tell only from where they would go on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import msgspec

from perenne import App, Context, Kind

STEPS = 6


class Walked(msgspec.Struct, frozen=True):
    """How far a walk is, and what it carries."""

    at: int
    carried: bytes

    @classmethod
    def of(cls, number: int, at: int) -> Walked:
        """The state of this walk after so many steps, and no other."""
        size = (10, 66_000, 70_000, 300)[at % 4]
        seed = hashlib.sha256(f"{number}:{at}".encode()).digest()
        return cls(at, (seed * (size // 32 + 1))[:size])


class Walk(msgspec.Struct, frozen=True):
    """Which walk, and after which step its first attempt stops, and how."""

    number: int
    stops_at: int = 0
    how: str = ""


class Trouble(Exception):
    """A failure on purpose."""


acknowledge: Callable[[int, int], object] | None = None  # in a recording: told the walk, and the step that was saved
pause: Callable[[str], object] | None = None


def walk(context: Context, task: Walk) -> dict[str, Any]:
    """Save at each step. Outside a recording: tell where it would go on, and whether that is a state that was saved."""
    state = context.state or Walked.of(task.number, 0)
    if acknowledge is None:
        return {"at": state.at, "right": state == Walked.of(task.number, state.at)}
    for at in range(state.at + 1, STEPS + 1):
        context.checkpoint(Walked.of(task.number, at))
        acknowledge(task.number, at)
        if context.attempt == 1 and at == task.stops_at:
            _stop(context, task.how)
    return {"at": STEPS, "right": True}


def _stop(context: Context, how: str) -> None:
    if how == "fail":
        raise Trouble("on purpose")
    assert pause is not None
    pause(context.job_id)
    while True:
        context.boundary()
        time.sleep(0.001)  # reason: the wish comes from another thread, and a handler only meets it


KIND = Kind("cut.walk", 1, walk, Walk, state_type=Walked, max_attempts=100)
APP = App("cut", [KIND])
PLAN = (Walk(1), Walk(2, 2, "fail"), Walk(3, 3, "pause"))
