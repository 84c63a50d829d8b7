"""The two clocks of a machine as one value, so that a test can hold them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """`now` gives UTC microseconds and may step; `monotonic` gives seconds and may not."""

    now: Callable[[], int]
    monotonic: Callable[[], float]


def _now_us() -> int:
    return time.time_ns() // 1000


SYSTEM = Clock(_now_us, time.monotonic)
