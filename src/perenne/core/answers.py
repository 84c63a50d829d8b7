"""What a handler may answer instead of a result: values, not errors.

Each is checked where the handler makes it, so that the end of an attempt can always be recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perenne.core import limits
from perenne.errors import InvalidInput


class Snooze(msgspec.Struct, frozen=True):
    """Call me again in so many seconds (at least 1, at most ten years); the attempt does not count."""

    seconds: float
    reason: str = "snoozed"

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, int | float) or not self.seconds <= limits.WAIT_MOST_S:
            raise InvalidInput(
                f"Snooze.seconds: {self.seconds!r}, the limit is {limits.WAIT_MOST_S:.0f}; give a number up to it",
                field="seconds",
                limit=limits.WAIT_MOST_S,
            )
        limits.check_word("Snooze.reason", self.reason)


class GiveUp(msgspec.Struct, frozen=True):
    """This can never succeed; the job ends FAILED without another attempt."""

    reason: str

    def __post_init__(self) -> None:
        limits.check_word("GiveUp.reason", self.reason)


class Doubt(msgspec.Struct, frozen=True):
    """It cannot be told what happened; the job waits for a person."""

    finding: str

    def __post_init__(self) -> None:
        limits.check_word("Doubt.finding", self.finding)


class Completion(msgspec.Struct, frozen=True):
    """The result, and what is written in the same transaction; made by `Context.complete`, to be returned."""

    result: Any = None
    also: Callable[[Any], object] | None = None
