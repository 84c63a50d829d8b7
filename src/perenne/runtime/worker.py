"""One worker: claims for its free slots, sleeps until woken, passes wishes on, drains when asked.

The calling thread is the worker's loop; each slot is a thread that runs one attempt at a time. What does not live here:
what an attempt does (`executor`) and what a dead one left (`recovery`).
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from perenne.core import events
from perenne.core.states import JobState
from perenne.errors import AlreadyFinished, NotAllowed
from perenne.runtime.executor import Executor
from perenne.runtime.recovery import Recovery
from perenne.runtime.wake import Bell
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim, Lane
from perenne.store.owners import Owner
from perenne.store.reader import Reader

GRACE_S = 10.0
LAST_GRACE_S = 2.0
LONGEST_SLEEP_S = 30.0  # while a time is waited for: the wall clock may step under a sleeping worker


@dataclass
class Running:
    """An attempt that a slot of this worker holds."""

    claim: Claim
    wishes: Wishes
    limit_at: float | None


@dataclass
class Report:
    """What a worker did, for people."""

    recovered: int = 0
    ended: int = 0
    drained: bool = False


class Worker:
    """One worker process's loop over one workspace."""

    def __init__(self, executor: Executor, recovery: Recovery, reader: Reader, owner: Owner, *, slots: int) -> None:
        self._executor, self._recovery, self._reader, self._owner = executor, recovery, reader, owner
        self._ledger, self._clock = executor.ledger, executor.clock
        self._lanes = [Lane(kind.name, kind.version) for kind in executor.app.kinds]
        self._slots = slots
        self._bell = Bell(executor.workspace.wake_folder)
        self._work: queue.SimpleQueue[Running | None] = queue.SimpleQueue()
        self._running: dict[str, Running] = {}
        self._changing = threading.Lock()
        self._fault: BaseException | None = None
        self._stops = 0
        self._drain_since: float | None = None
        self.report = Report()

    def run(self, *, stay: bool) -> Report:
        """Recover, then work: until nothing is due (stay: until told to stop).

        Raises: StorageError: an end could not be recorded; what still runs is left to recovery.
        """
        threads = [threading.Thread(target=self._slot, name=f"slot-{n}", daemon=True) for n in range(self._slots)]
        with self._bell, self._signals():
            self.report.recovered = len(self._recovery.settle_dead())
            self._recovery.owners.join(self._owner, now=self._clock.now())
            self._release_found()
            for thread in threads:
                thread.start()
            self._loop_to_end(stay)
            for _ in threads:
                self._work.put(None)
            for thread in threads:
                thread.join(GRACE_S)
            self._recovery.owners.leave(self._owner.id, now=self._clock.now())
        if self._fault is not None:
            raise self._fault
        return self.report

    def stop(self) -> None:
        """Drain: running attempts end at their next boundary and go back to the queue. Twice: stop their tools too."""
        self._stops += 1
        self._bell.ring()

    def _loop_to_end(self, stay: bool) -> None:
        try:
            self._loop(stay)
        except BaseException as fault:
            self._fault = self._fault or fault
            self._press([one.wishes for one in self._running.values()])

    def _loop(self, stay: bool) -> None:
        while True:
            self._pass_wishes()
            idle = self._draining() or not self._fill()
            if not self._running and idle and (not stay or self._draining()):
                return
            self._bell.wait(self._patience())

    def _fill(self) -> bool:
        """Claim for every free slot; true when a slot is or may be busy."""
        while len(self._running) < self._slots:
            claim = self._ledger.claim(
                self._lanes,
                owner=self._owner.id,
                attempt=self._executor.luck.bytes(16).hex(),
                now=self._clock.now(),
            )
            if claim is None:
                break
            self._start(claim)
        return bool(self._running)

    def _start(self, claim: Claim) -> None:
        job = claim.job
        left_ms = None if job.active_limit_ms is None else max(job.active_limit_ms - job.active_ms, 0)
        limit_at = None if left_ms is None else self._clock.monotonic() + left_ms / 1000
        running = Running(claim, Wishes(), limit_at)
        with self._changing:
            self._running[claim.token.attempt] = running
        self._work.put(running)

    def _slot(self) -> None:
        while (running := self._work.get()) is not None:
            try:
                self._executor.run(running.claim, running.wishes)
                self.report.ended += 1
            except BaseException as fault:
                self._fault = self._fault or fault
            with self._changing:
                del self._running[running.claim.token.attempt]
            running.wishes.stop.close()
            self._bell.ring()

    def _pass_wishes(self) -> None:
        """Tell each running attempt what is asked of it now."""
        with self._changing:
            running = list(self._running.items())
        asked = self._reader.asked()
        self._note_stop()
        now = self._clock.monotonic()
        for attempt, one in running:
            if attempt in asked:
                self._pass(one.wishes, "cancel", asked[attempt].cancel)
                self._pass(one.wishes, "pause", asked[attempt].pause)
                self._pass(one.wishes, "suspend", asked[attempt].stop or self._draining())
                if asked[attempt].stop:
                    one.wishes.ask("suspend", hard=True)
            if one.limit_at is not None and now >= one.limit_at:
                one.wishes.ask("limit")
        self._press_on([one.wishes for _, one in running])

    @staticmethod
    def _pass(wishes: Wishes, why: str, asked: bool) -> None:
        wishes.ask(why) if asked else wishes.take_back(why)

    def _note_stop(self) -> None:
        """A stopped workspace drains its workers, as a signal does."""
        stopped = self._stops > 0 or self._fault is not None or self._reader.controls().stopped
        if stopped and self._drain_since is None:
            self._drain_since = self._clock.monotonic()
            self.report.drained = True

    def _draining(self) -> bool:
        return self._drain_since is not None

    def _press_on(self, wishes: list[Wishes]) -> None:
        """After the grace time, or a second signal, tools are stopped; a handler that still goes on ends with us."""
        if self._drain_since is None:
            return
        waited_s = self._clock.monotonic() - self._drain_since
        if self._stops < 2 and waited_s < GRACE_S:
            return
        self._press(wishes)
        if waited_s >= GRACE_S + LAST_GRACE_S and wishes:
            # Its thread cannot be ended from outside. Dying keeps the promise: the next worker finds it interrupted.
            os._exit(70)

    @staticmethod
    def _press(wishes: list[Wishes]) -> None:
        for one in wishes:
            one.ask("suspend", hard=True)
            one.give_up.set()

    def _patience(self) -> float | None:
        """How long to sleep at most: until a limit, a due time, or the end of a grace time."""
        with self._changing:
            limits = [one.limit_at for one in self._running.values() if one.limit_at and not one.wishes.asked("limit")]
        now = self._clock.monotonic()
        waits = [at - now for at in limits]
        if self._drain_since is not None:
            passed = now - self._drain_since
            waits.append(GRACE_S - passed if passed < GRACE_S and self._stops < 2 else LAST_GRACE_S)
        due = None if self._draining() else self._reader.next_due()
        if due is not None:
            waits.append(min((due - self._clock.now()) / 1e6, LONGEST_SLEEP_S))
        return max(min(waits), 0.001) if waits else None

    def _release_found(self) -> None:
        """Jobs that waited for a tool go on when it is here."""
        for job_id in self._reader.standing(JobState.BLOCKED):
            job = self._reader.job(job_id)
            if job.reason != "tool_missing" or not self._executor.app.knows(job.kind, job.version):
                continue
            kind = self._executor.app.kind(job.kind, job.version)
            if kind.missing is None or kind.missing() is None:
                self._release(job_id)

    def _release(self, job_id: str) -> None:
        try:
            event = events.Release("tool_found")
            self._ledger.tell(job_id, event, now=self._clock.now(), actor=self._executor.actor)
        except (NotAllowed, AlreadyFinished):
            return  # someone cancelled or released it in between

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT drain while the loop runs, where a process lets us: in its main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def heard(number: int, frame: FrameType | None) -> None:
            self.stop()

        before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
