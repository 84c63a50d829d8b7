"""Finds out that a coroutine holds the event loop for more than a second, and says so with the stack that holds it.

The thread that looks sleeps while no coroutine runs. What does not live here: the loop (`coroutines`), and where it is
told while it lasts (`heldloop`).
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from perenne.runtime import heldloop
from perenne.runtime.clock import Clock
from perenne.runtime.context import Log

HELD_S = 1.0


class Handler(NamedTuple):
    """What runs on the loop: its log, and its name for people."""

    log: Log
    name: str


UNNAMED = "what is no handler of a job"  # a task or a callback that a handler left there


class MarkedSelector(selectors.DefaultSelector):
    """What a loop sleeps on; it tells since when the loop is at work, and that it goes on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.busy_since: float | None = None
        self.when_it_goes_on: Callable[[], None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As any selector; the loop is at work from the return of one call to the next one."""
        self.busy_since = None
        if self.when_it_goes_on is not None:
            self.when_it_goes_on()
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
        lock: Path,
        clock: Clock,
    ) -> None:
        self._selector, self._loop, self._looked_at, self._log, self._clock = selector, loop, thread, log, clock
        self._say = partial(heldloop.tell, lock)
        self._handlers: dict[asyncio.Task[Any], Handler] = {}
        self._told: float | None = None
        self._saying = threading.Lock()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="loop-watch")
        self._thread.start()

    @contextmanager
    def over(self, task: asyncio.Task[Any], log: Log, name: str) -> Iterator[None]:
        """Around a handler; it is named, and its log is told as well, when it is the one that holds the loop."""
        with self._changed:
            self._handlers[task] = Handler(log, name)
            if len(self._handlers) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._handlers[task]

    def close(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(self._look() if self._handlers else None)

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
        task = asyncio.current_task(self._loop)
        handler = None if task is None else self._handlers.get(task)
        self._tell_while_it_lasts(held_s, UNNAMED if handler is None else handler.name)
        sentence = "a coroutine holds the loop, and all others wait; await what takes long, or hand it to a thread"
        for log in [self._log, *([] if handler is None else [handler.log])]:
            log.write("warning", "loop_blocked", sentence=sentence, held_s=round(held_s, 3), stack=stack)

    def _tell_while_it_lasts(self, held_s: float, name: str) -> None:
        """The loop takes it back when it goes on; of one that went on meanwhile nothing is left."""
        with self._saying:
            self._selector.when_it_goes_on = self._take_back
            if self._selector.busy_since == self._told:
                self._say(heldloop.HeldLoop(self._clock.now() - int(held_s * 1e6), name))

    def _take_back(self) -> None:
        with self._saying:
            self._selector.when_it_goes_on = None
            self._say(None)
