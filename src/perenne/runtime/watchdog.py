"""Watches the hard time limits of attempts that run in threads, from a thread of its own that no handler can hold.

A thread cannot be ended from outside: past its limit the attempt is fenced and asked to end, and if it does not, the
worker is told to drain, and ends itself. What does not live here: the limits of children, which can be ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from perenne.runtime import drain
from perenne.runtime.clock import Clock
from perenne.runtime.wishes import Wishes


@dataclass(eq=False)
class _Watched:
    """An attempt, and when the next thing is to be done about it."""

    wishes: Wishes
    due_at: float


class Watchdog:
    """One thread, started with the first attempt that has a limit.

    `drain` is called when an attempt is still there a grace time after its limit.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.drain: Callable[[], None] = drain.die
        self._watched: set[_Watched] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def over(self, wishes: Wishes, limit_s: float) -> Iterator[None]:
        """Around an attempt: past the limit it is asked `wall`."""
        watched = _Watched(wishes, self._clock.monotonic() + limit_s)
        with self._changed:
            self._start()
            self._watched.add(watched)
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.discard(watched)

    def close(self) -> None:
        """Let the thread end; nothing is watched any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="watchdog")
            self._thread.start()

    def _work(self) -> None:
        with self._changed:
            while not self._closed:
                now = self._clock.monotonic()
                for one in [one for one in self._watched if one.due_at <= now]:
                    self._act(one, now)
                self._changed.wait(min((one.due_at - now for one in self._watched), default=None))

    def _act(self, one: _Watched, now: float) -> None:
        """Past its limit an attempt is fenced; past the grace time after that, its worker has to go."""
        if one.wishes.asked("wall"):
            self._watched.discard(one)
            self.drain()
        else:
            one.due_at = now + drain.GRACE_S
            one.wishes.ask("wall")
