"""The threads that run attempts, one at a time each, and the attempts they hold.

What does not live here: which attempts to run, and what becomes of them when they ended (`worker`).
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perenne.core.events import Ended
from perenne.files import atomic
from perenne.runtime.clock import Clock
from perenne.runtime.toolsession import close_sessions
from perenne.runtime.wake import drain
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim

QUICK_S = 0.01
SAMPLES = 8


@dataclass(eq=False)
class Running:
    """An attempt that this worker holds: waiting for a slot, in one, or ended and not recorded yet."""

    claim: Claim
    wishes: Wishes = field(default_factory=Wishes)
    started_at: float | None = None
    ended: Ended | None = None
    taken: bool = False  # its end is being recorded

    def left_s(self, now: float) -> float | None:
        """Seconds of active time left at `now`, all of them before the start; None without a limit."""
        job = self.claim.job
        if job.active_limit_ms is None:
            return None
        used_s = 0.0 if self.started_at is None else now - self.started_at
        return max(job.active_limit_ms - job.active_ms, 0) / 1000 - used_s


class Slots:
    """So many threads that perform attempts; readable, for a loop that sleeps, once one of them ended."""

    def __init__(self, perform: Callable[[Claim, Wishes], Ended], count: int, clock: Clock) -> None:
        self.count = count
        self.held: dict[str, Running] = {}
        self.fault: BaseException | None = None
        self.listener_sleeps = False
        self._perform, self._clock = perform, clock
        self._readable, self._writable = -1, -1
        self._todo: queue.SimpleQueue[Running | None] = queue.SimpleQueue()
        self._done: deque[Running] = deque()
        self._mean_s, self._samples = 0.0, 0
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads, each in a copy of the caller's context: which engine is near is known there, too.

        Raises: StoreFailed: this process may open no more files.
        """
        with atomic.explained(Path("the worker's pipe"), "made"):
            self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        for number in range(self.count):
            run = partial(contextvars.copy_context().run, self._work)
            self._threads.append(threading.Thread(target=run, daemon=True, name=f"slot-{number}"))
            self._threads[-1].start()

    @property
    def room(self) -> int:
        """How many attempts more this worker wants: one a slot, two where attempts are over before a claim would be.

        None beside a job that runs alone, until its end is being recorded.
        """
        if any(one.claim.job.runs_alone and not one.taken for one in self.held.values()):
            return 0
        quick = self._samples >= SAMPLES and self._mean_s < QUICK_S
        return self.count * (2 if quick else 1) - sum(one.ended is None for one in self.held.values())

    def put(self, claim: Claim) -> None:
        running = Running(claim)
        self.held[claim.token.attempt] = running
        self._todo.put(running)

    @property
    def free(self) -> int:
        """How many slots have nothing to do."""
        return max(self.count - sum(one.ended is None for one in self.held.values()), 0)

    @property
    def company(self) -> bool:
        """Whether an attempt is here whose end is not being recorded."""
        return not all(one.taken for one in self.held.values())

    @property
    def any_ended(self) -> bool:
        return bool(self._done) or self.fault is not None

    def fileno(self) -> int:
        return self._readable

    def take_ended(self) -> list[Running]:
        """The attempts that ended since the last call; they stay held until `forget`."""
        drain(self._readable)
        taken = []
        while self._done:
            taken.append(self._done.popleft())
            taken[-1].taken = True
        return taken

    def forget(self, running: Running) -> None:
        """The end is recorded."""
        del self.held[running.claim.token.attempt]
        running.wishes.stop.close()

    def close(self, timeout_s: float) -> bool:
        """Let the threads end once they are free, and wait for them so long; false when one still runs a handler."""
        for _ in self._threads:
            self._todo.put(None)
        deadline = self._clock.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(deadline - self._clock.monotonic(), 0))
        if any(thread.is_alive() for thread in self._threads):
            return False
        for descriptor in (self._readable, self._writable):
            if descriptor >= 0:
                os.close(descriptor)
        return True

    def _work(self) -> None:
        try:
            self._perform_all()
        finally:
            close_sessions()

    def _perform_all(self) -> None:
        while (running := self._todo.get()) is not None:
            try:
                running.started_at = self._clock.monotonic()
                ended = self._perform(running.claim, running.wishes)
                self._measure(self._clock.monotonic() - running.started_at)
                running.ended = ended
                self._done.append(running)
            except BaseException as fault:
                self.fault = self.fault or fault
            if self.listener_sleeps:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._writable, b"!")

    def _measure(self, seconds: float) -> None:
        self._samples += 1
        self._mean_s += (seconds - self._mean_s) / min(self._samples, 64)
