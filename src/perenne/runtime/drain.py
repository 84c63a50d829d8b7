"""How a worker is told to end: by signals, twice for hard; and how long each step of it may take."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from perenne.runtime.clock import Clock
from perenne.runtime.wishes import Wishes

GRACE_S = 10.0  # from the wish to end until tools are stopped too
LAST_GRACE_S = 2.0  # from then until the process ends itself
EXIT_CODE = 70


class Drain:
    """Whether this worker is to end, since when, and how hard."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._pressed_at: float | None = None
        self.asked = 0

    @property
    def begun(self) -> bool:
        return self._since is not None

    @property
    def pressed(self) -> bool:
        return self._pressed_at is not None

    @property
    def hard(self) -> bool:
        """Whether the time of patience is over: a second signal came, or the grace time has passed."""
        if self._since is None:
            return False
        return self.asked >= 2 or self._clock.monotonic() - self._since >= GRACE_S

    def begin(self) -> None:
        if self._since is None:
            self._since = self._clock.monotonic()

    def go_on(self, wishes: Iterable[Wishes]) -> None:
        """Take the step that is due: after the grace time or a second signal stop the tools; at last die."""
        held = list(wishes)
        if self._since is None or not held:
            return
        if self.hard:
            self.press(held)
        if self._pressed_at is not None and self._clock.monotonic() - self._pressed_at >= LAST_GRACE_S:
            die()

    def press(self, wishes: Iterable[Wishes]) -> None:
        """Stop tools now."""
        for one in wishes:
            one.ask("suspend", hard=True)
        if self._pressed_at is None:
            self._pressed_at = self._clock.monotonic()

    def next_step_s(self) -> float | None:
        """Seconds until the next step is due."""
        if self._since is None:
            return None
        since, grace_s = (self._since, GRACE_S) if self._pressed_at is None else (self._pressed_at, LAST_GRACE_S)
        return max(since + grace_s - self._clock.monotonic(), 0.0)


def die() -> NoReturn:
    """End this process now: a thread cannot be ended from outside, and whoever recovers finds its job interrupted."""
    os._exit(EXIT_CODE)


# A terminal that is closed asks as a person does who presses Ctrl-C.
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def signals(heard: Callable[[], None], bell: int) -> Iterator[None]:
    """SIGTERM, SIGINT and SIGHUP call `heard` meanwhile, where a process lets us: in its main thread.

    Args: bell: a descriptor on which that thread sleeps. It is written to as the signal arrives: Python calls `heard`
    only between two lines, and a signal that comes when the last line before a sleep is done would wait for its end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        heard()

    woken_before = signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    before = {number: signal.signal(number, handle) for number in _ENDS}
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken_before)
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
