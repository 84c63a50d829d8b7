"""Deletes what is final and old: rows by `store.retention`, then the logs of the jobs that are gone.

What does not live here: which jobs go (`store.retention`), and artefacts.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from perenne.crashpoints import crash_point
from perenne.errors import StoreFailed
from perenne.files.workspace import Workspace
from perenne.runtime.clock import Clock
from perenne.store.retention import STEP_JOBS, Removed, Retention, Rule

# Longer than a writer that found the store busy sleeps before it tries again, so that each of them gets its turn.
BREATH_S = 0.015


@dataclass(frozen=True)
class Pruner:
    """Purges one workspace, beside whoever works in it."""

    workspace: Workspace
    retention: Retention
    clock: Clock
    actor: str
    breathe: Callable[[float], None] = time.sleep

    def purge(
        self, rule: Rule, *, step: int = STEP_JOBS, progress: Callable[[Removed], object] | None = None
    ) -> Removed:
        """Remove the jobs that the rule means, a step at a time, with room for other writers between the steps.

        Args: step: at most so many jobs a transaction. progress: told the sum after each step.
        Raises: InvalidInput: the rule; nothing was removed. StorageError: what was removed until then stays removed.
        Guarantees: killed anywhere, each job is there whole or gone whole; a log may be left behind, which `doctor`
        names. Called again, it goes on.
        """
        removed = Removed()
        for gone, ids in self.retention.purge(rule, now=self.clock.now(), actor=self.actor, step=step):
            self._remove_logs(ids)
            removed += gone
            if progress is not None:
                progress(removed)
            self.breathe(BREATH_S)
        return removed

    def _remove_logs(self, ids: tuple[str, ...]) -> None:
        for id in ids:
            log = self.workspace.log_of(id)
            try:
                with contextlib.suppress(FileNotFoundError):
                    log.unlink()
                    crash_point("purge.log_removed")
            except OSError as error:
                raise StoreFailed(
                    f"log {log} of a purged job cannot be removed ({error.strerror}); "
                    f"give permission, then purge again and remove the file by hand",
                    path=str(log),
                ) from error
