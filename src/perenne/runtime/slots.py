"""The attempts that a worker holds, and where they run: in threads, one at a time each, or together on one loop.

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
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from perenne.core.events import Ended
from perenne.core.resources import Reservation
from perenne.files import atomic
from perenne.runtime.clock import Clock
from perenne.runtime.toolsession import close_sessions
from perenne.runtime.wake import drain
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim, Place

if TYPE_CHECKING:
    from perenne.runtime.coroutines import Coroutines

QUICK_S = 0.01
SAMPLES = 8
LOOP_STEP = 64  # claimed in one transaction at most, for others wait for the store


@dataclass(eq=False)
class Running:
    """An attempt that this worker holds: waiting for a slot, in one, or ended and not recorded yet."""

    claim: Claim
    wishes: Wishes = field(default_factory=Wishes)
    started_at: float | None = None
    ended: Ended | None = None
    taken: bool = False  # its end is being recorded
    awaits: bool = False  # it runs on the loop, and in no slot
    asks: bool = False  # it broke its sequence and runs nowhere until it is granted the next one

    def left_s(self, now: float) -> float | None:
        """Seconds of active time left at `now`, all of them before the start; None without a limit."""
        job = self.claim.job
        if job.active_limit_ms is None:
            return None
        used_s = 0.0 if self.started_at is None else now - self.started_at
        return max(job.active_limit_ms - job.active_ms - self.claim.used_ms, 0) / 1000 - used_s


class Places(NamedTuple):
    """The room that a worker has, for kinds that are called and for kinds that are awaited."""

    slots: Place
    loop: Place


NO_PLACES = Places(Place("slots", 0), Place("loop", 0))


class Slots:
    """So many threads that perform attempts; readable, for a loop that sleeps, once one of them ended."""

    def __init__(
        self,
        perform: Callable[[Claim, Wishes], Ended],
        count: int,
        clock: Clock,
        coroutines: int = 0,
        loop: Callable[[type[Coroutines]], Coroutines] | None = None,
    ) -> None:
        """Args: coroutines: how many attempts may run on the loop, which `loop` makes when there is a first one."""
        self.count, self.coroutines = count, coroutines
        self._make_loop, self._loop = loop, None  # type: Callable[[type[Coroutines]], Coroutines] | None, Coroutines | None
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
    def places(self) -> Places:
        """The attempts more that this worker wants: one a slot, two where they are over before a claim would be.

        On the loop so many as it has room for, in steps. None beside a job that runs alone, until its end is being
        recorded.
        """
        if any(one.claim.job.runs_alone and not one.taken for one in self.held.values()):
            return NO_PLACES
        quick = self._samples >= SAMPLES and self._mean_s < QUICK_S
        awaiting = sum(one.ended is None and one.awaits for one in self.held.values())
        calling = sum(one.ended is None and not one.awaits and not one.asks for one in self.held.values())
        room = max(self.count * (2 if quick else 1) - calling, 0)
        ahead = max(room - max(self.count - calling, 0), 0)
        return Places(Place("slots", room, ahead), Place("loop", max(min(self.coroutines - awaiting, LOOP_STEP), 0)))

    @property
    def has_room(self) -> bool:
        return any(place.room > 0 for place in self.places)

    def put(self, claim: Claim, *, awaits: bool) -> None:
        """Have this attempt performed: on the loop, or by the next slot that is free."""
        running = Running(claim, awaits=awaits)
        self.held[claim.token.attempt] = running
        if not awaits:
            self._todo.put(running)
            return
        if self._loop is None:
            from perenne.runtime.coroutines import Coroutines  # asyncio takes long to load, and few apps need it

            assert self._make_loop is not None
            self._loop = self._make_loop(Coroutines)
        running.started_at = self._clock.monotonic()
        self._loop.start(claim, running.wishes, partial(self._told, running))

    def rest(self, running: Running) -> None:
        """It broke its sequence: its slot serves others, and it stays held."""
        assert running.ended is not None
        running.claim = msgspec.structs.replace(running.claim, grant=None, used_ms=running.ended.active_ms)
        running.ended, running.taken, running.started_at, running.asks = None, False, None, True

    def go_on(self, running: Running, grant: Reservation) -> None:
        """Have the next sequence of it performed by the next slot that is free."""
        sequence = running.claim.sequence + 1
        running.claim = msgspec.structs.replace(running.claim, grant=grant, sequence=sequence)
        running.asks = False
        self._todo.put(running)

    def let_end(self, running: Running) -> None:
        """Have it meet what is asked of it now, in no slot: it is not granted anything any more."""
        sequence = running.claim.sequence + 1
        running.claim = msgspec.structs.replace(running.claim, sequence=sequence)
        running.asks = False
        run = partial(contextvars.copy_context().run, self._perform_one, running)
        threading.Thread(target=run, daemon=True, name="slot-apart").start()

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
        if self._loop is not None and not self._loop.close(max(deadline - self._clock.monotonic(), 0)):
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
            self._perform_one(running)

    def _perform_one(self, running: Running) -> None:
        try:
            running.started_at = self._clock.monotonic()
            ended = self._perform(running.claim, running.wishes)
            self._measure(self._clock.monotonic() - running.started_at)
        except BaseException as fault:
            self._told(running, fault)
        else:
            self._told(running, ended)

    def _told(self, running: Running, ended: Ended | BaseException) -> None:
        if isinstance(ended, BaseException):
            self.fault = self.fault or ended
        else:
            running.ended = ended
            self._done.append(running)
        if self.listener_sleeps:
            with contextlib.suppress(BlockingIOError):
                os.write(self._writable, b"!")

    def _measure(self, seconds: float) -> None:
        self._samples += 1
        self._mean_s += (seconds - self._mean_s) / min(self._samples, 64)
