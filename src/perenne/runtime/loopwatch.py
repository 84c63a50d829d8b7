"""Finds out that a coroutine holds the event loop for more than a second, and says so with the stack that holds it.

The thread that looks sleeps while no coroutine runs. What does not live here: the loop (`coroutines`).
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from perenne.runtime.clock import Clock
from perenne.runtime.context import Log

HELD_S = 1.0


class MarkedSelector(selectors.DefaultSelector):
    """What a loop sleeps on; it tells since when the loop is at work."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.busy_since: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As any selector; the loop is at work from the return of one call to the next one."""
        self.busy_since = None
        try:
            return super().select(timeout)
        finally:
            self.busy_since = self._clock.monotonic()


class LoopWatch:
    """Looks at one loop while handlers run on it; each time it is held there is one report."""

    def __init__(
        self,
        selector: MarkedSelector,
        loop: asyncio.AbstractEventLoop,
        thread: threading.Thread,
        log: Log,
        clock: Clock,
    ) -> None:
        self._selector, self._loop, self._looked_at, self._log, self._clock = selector, loop, thread, log, clock
        self._logs: dict[asyncio.Task[Any], Log] = {}
        self._told: float | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="loop-watch")
        self._thread.start()

    @contextmanager
    def over(self, handler: asyncio.Task[Any], log: Log) -> Iterator[None]:
        """Around a handler; its log is told as well when it is the one that holds the loop."""
        with self._changed:
            self._logs[handler] = log
            if len(self._logs) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._logs[handler]

    def close(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(self._look() if self._logs else None)

    def _look(self) -> float:
        """Report a loop that is held; seconds until the next look."""
        since = self._selector.busy_since
        if since is None or since == self._told:
            return HELD_S
        held_s = self._clock.monotonic() - since
        if held_s <= HELD_S:
            return HELD_S - held_s + 0.001
        frame = sys._current_frames().get(self._looked_at.ident or 0)
        if self._selector.busy_since == since:
            self._told = since
            self._tell(held_s, "".join(traceback.format_stack(frame)))
        return HELD_S

    def _tell(self, held_s: float, stack: str) -> None:
        handler = asyncio.current_task(self._loop)
        sentence = "a coroutine holds the loop, and all others wait; await what takes long, or hand it to a thread"
        logs = [self._log, *([self._logs[handler]] if handler in self._logs else [])]
        for log in logs:
            log.write("warning", "loop_blocked", sentence=sentence, held_s=round(held_s, 3), stack=stack)
