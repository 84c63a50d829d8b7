"""Waiting for room in a full queue: until somebody rings because a job ended, or the caller's patience is over.

What does not live here: storing (`store.ledger`), and ringing (`wake`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from perenne.errors import QueueFull
from perenne.runtime import wake
from perenne.runtime.clock import Clock

T = TypeVar("T")


def patiently(store: Callable[[], T], patience_s: float, wake_folder: Path, clock: Clock) -> T:
    """What `store` answers, asked again while its queue is full: whenever somebody rings, and when the time is over.

    Raises: QueueFull: it still was then; and whatever else `store` raises, at once.
    """
    deadline = clock.monotonic() + patience_s
    with wake.Bell(wake_folder) as bell:
        while True:
            left_s = deadline - clock.monotonic()
            try:
                return store()
            except QueueFull:
                if left_s <= 0:
                    raise
            bell.wait(left_s)
