"""What is asked of one running attempt, from any thread: to end for cancel, a limit, quota, suspend or pause.

A wish is met at the next boundary. Hard wishes also stop the tool that the attempt runs, at once: whatever a person
asked. A worker that drains by itself lets the tool end within its grace time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from perenne.errors import Cancelled, Unwound
from perenne.runtime.stop import Stop

# E-S2's order: who comes first decides how the attempt ends.
ORDER = ("stale", "cancel", "limit", "wall", "quota", "suspend", "pause")
HARD = frozenset({"stale", "cancel", "limit", "wall", "pause"})
FENCED = frozenset({"stale", "wall"})  # the attempt goes on at most in vain: it has lost its right to write


class Wishes:
    """The wishes of one attempt, and the stop request that its tools wait on."""

    def __init__(self) -> None:
        self.stop = Stop()
        self._asked: set[str] = set()
        self._hard: set[str] = set()
        self._lock = threading.Lock()
        self._changed: Callable[[], None] | None = None
        self._woken: threading.Event | None = None  # made for the few that wait: it costs more than all the rest

    def ask(self, why: str, *, hard: bool = False) -> None:
        """Ask for one of `ORDER`; hard: do not wait for the boundary where a tool is running."""
        hard = hard or why in HARD
        with self._lock:
            self._asked.add(why)
            self._hard |= {why} if hard else set()
            woken = self._woken
        if hard:
            self.stop.ask(why)
        if woken is not None:
            woken.set()
        self._say()

    def take_back(self, why: str) -> None:
        """A pause that was resumed before it was met."""
        with self._lock:
            self._asked.discard(why)
            self._hard.discard(why)
        self._say()

    @contextmanager
    def told_to(self, changed: Callable[[], None]) -> Iterator[None]:
        """Meanwhile `changed` is called after each wish, by whoever made it; and once at the beginning."""
        self._changed = changed
        changed()
        try:
            yield
        finally:
            self._changed = None

    def _say(self) -> None:
        changed = self._changed
        if changed is not None:
            changed()

    def wait(self, most_s: float) -> None:
        """Sleep so long at most; a wish ends it."""
        with self._lock:
            woken = self._woken = self._woken or threading.Event()
            if self._asked:
                woken.set()
        woken.wait(most_s)

    def is_hard(self, why: str) -> bool:
        """Whether this is asked and nobody waits for the boundary."""
        return why in self._hard

    def asked(self, why: str) -> bool:
        return why in self._asked

    @property
    def fenced(self) -> bool:
        """Whether nothing that the attempt does may be kept any more."""
        return not FENCED.isdisjoint(self._asked)

    @property
    def first(self) -> str | None:
        """The wish that counts, or None."""
        if not self._asked:
            return None
        with self._lock:
            return next((why for why in ORDER if why in self._asked), None)

    def meet(self) -> None:
        """Raises: Cancelled, Unwound: something is asked; the frame must end."""
        why = self.first
        if why == "cancel":
            raise Cancelled(why)
        if why is not None:
            raise Unwound(why)
