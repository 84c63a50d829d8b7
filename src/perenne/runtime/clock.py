"""The two clocks of a machine as one value, so that a test can hold them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """`now` gives UTC microseconds since 1970, never less than 0, and may step; `monotonic` seconds, and may not."""

    now: Callable[[], int]
    monotonic: Callable[[], float]


def _now_us() -> int:
    """A machine that shows a time before 1970 has lost it: the instants of the ledger begin there."""
    return max(time.time_ns() // 1000, 0)


SYSTEM = Clock(_now_us, time.monotonic)
