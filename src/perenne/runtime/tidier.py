"""Carries out the rule of retention while a worker lives: beside its work, in small steps, one worker at a time.

What does not live here: the rule (`retention_rule`), and what goes with a job (`pruner`).
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

from perenne.errors import EngineError
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.runtime import retention_rule
from perenne.runtime.clock import Clock
from perenne.runtime.joblog import JobLog
from perenne.runtime.pruner import Pruner
from perenne.store.driver import Driver
from perenne.store.retention import Retention

EVERY_S = 600.0
STEP_JOBS = 32  # some milliseconds: a claim that meets a step waits no longer than for another worker's commit


class _Stopped(Exception):
    """The worker ends; what is left to remove is for the next time."""


class Tidier:
    """While it is entered, what the rule means is removed: at once, then every ten minutes. Without a rule it rests."""

    def __init__(self, workspace: Workspace, driver: Driver, clock: Clock, actor: str, log: JobLog) -> None:
        """Raises: InvalidInput: the rule."""
        self._workspace, self._log = workspace, log
        self._rule = retention_rule.of(workspace)
        self._pruner = Pruner(workspace, Retention(driver), clock, actor, self._breathe)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Tidier:
        if self._rule is not None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="tidier", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop after the step under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.tidy()
            except _Stopped:
                return
            except (EngineError, OSError) as error:  # what could not be removed now is tried again
                self._log.write("warning", "retention_failed", error=str(error))
            self._stop.wait(EVERY_S)

    def tidy(self) -> None:
        """Remove what the rule means, unless another worker is at it.

        Raises: StorageError: what was removed until then stays removed.
        """
        assert self._rule is not None
        lock = Lock.take(self._workspace.retention_lock, text=f"retention, pid {os.getpid()}\n")
        if lock is not None:
            with lock:
                self._pruner.purge(self._rule, step=STEP_JOBS)

    def _breathe(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped
