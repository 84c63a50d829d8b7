"""What a handler may answer instead of a result: values, not errors."""

from __future__ import annotations

import msgspec


class Snooze(msgspec.Struct, frozen=True):
    """Call me again in so many seconds (at least 1); the attempt does not count."""

    seconds: float
    reason: str = "snoozed"


class GiveUp(msgspec.Struct, frozen=True):
    """This can never succeed; the job ends FAILED without another attempt."""

    reason: str


class Doubt(msgspec.Struct, frozen=True):
    """It cannot be told what happened; the job waits for a person."""

    finding: str
