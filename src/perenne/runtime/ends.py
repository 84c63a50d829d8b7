"""Tells who listens in this process that a job ended: after it is durable, outside every lock, once.

What does not live here: durable notices (`store.notices`), wake-ups of other processes (`wake`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count

from perenne.core.job import Job, Receipt
from perenne.core.states import JobState
from perenne.errors import EngineError
from perenne.runtime.saying import said

Listener = Callable[[Job], None]


class Ends:
    """The listeners of this process, and the endings that are being told right now."""

    def __init__(self, report: Callable[[str], None], wake: Callable[[], object] = bool) -> None:
        """Args: report: notes a listener's fault. wake: tells other processes that something ended."""
        self._listeners: list[Listener] = []
        self.report, self._wake = report, wake
        self._tickets = count()
        self._open: set[int] = set()
        self._changed = threading.Condition()

    def add(self, listener: Listener) -> None:
        """Call the listener with each job whose end this process writes from now on."""
        self._listeners.append(listener)

    @contextmanager
    def ending(self) -> Iterator[Callable[[Iterable[Job]], None]]:
        """Around the write of an end; the value given is called with the jobs that ended, once they are durable."""
        ticket = self.open()
        try:
            yield self.tell
        finally:
            self.close(ticket)

    def open(self) -> int:
        """Before the write of an end: `settle` waits from now on, until `close` of the ticket."""
        with self._changed:
            ticket = next(self._tickets)
            self._open.add(ticket)
            return ticket

    def close(self, ticket: int) -> None:
        with self._changed:
            self._open.discard(ticket)
            self._changed.notify_all()

    def settle(self, timeout_s: float | None = None) -> bool:
        """Wait until every ending that is being told now has been told; false when the time is over."""
        with self._changed:
            now_open = set(self._open)
            return self._changed.wait_for(lambda: not now_open & self._open, timeout_s)

    def tell(self, jobs: Iterable[Job]) -> None:
        """Wake who waits elsewhere, once, and call every listener with each job; their faults stop nobody."""
        jobs = list(jobs)
        if jobs:
            self._wake()
        for job in jobs:
            for listener in tuple(self._listeners):
                try:
                    listener(job)
                except Exception as error:
                    # A listener's fault is its own; the end stands and the others hear of it.
                    self.report(f"listener of the end of job {job.id} failed: {said(error)}")

    def tell_failed(self, receipts: Iterable[Receipt], read: Callable[[str], Job]) -> None:
        """Tell of the new jobs that failed as they were stored; stored they are, whether or not they can be read."""
        for receipt in receipts:
            if receipt.state is JobState.FAILED and not receipt.reused:
                try:
                    job = read(receipt.job_id)
                except EngineError as error:
                    self.report(f"no listener heard of the end of job {receipt.job_id}: {said(error)}")
                else:
                    self.tell([job])
