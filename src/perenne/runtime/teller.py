"""A thread that tells listeners of ends, so that a slow listener holds up nobody else."""

from __future__ import annotations

import queue
import threading

from perenne.core.job import Job
from perenne.crashpoints import crash_point
from perenne.runtime.ends import Ends


class Teller:
    """Tells in the order in which the ends were written."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._news: queue.SimpleQueue[tuple[int, list[Job]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="teller")
        self._thread.start()

    def tell(self, ticket: int, jobs: list[Job]) -> None:
        """Tell of these ends, then close the ticket."""
        self._news.put((ticket, jobs))

    def close(self, timeout_s: float) -> None:
        """Return once all is told, or when the time is over: a listener that hangs keeps no worker from ending."""
        self._news.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (news := self._news.get()) is not None:
            ticket, jobs = news
            try:
                self._ends.tell(jobs)
            except BaseException as error:  # a listener that would end its thread; this one goes on
                self._ends.report(f"a listener ended with {type(error).__name__}; the other listeners were not told")
            finally:
                self._ends.close(ticket)
            crash_point("acknowledge.told")
