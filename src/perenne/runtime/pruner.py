"""Deletes what is final and old: jobs by `store.retention`, their logs and artefacts, and workers that left for good.

What does not live here: which jobs go (`store.retention`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from perenne.crashpoints import crash_point
from perenne.errors import StoreFailed
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.runtime import keeping
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
        names, and bytes of artefacts, which the next purge removes. Called again, it goes on.
        """
        removed = Removed()
        for gone, ids in self.retention.purge(rule, now=self.clock.now(), actor=self.actor, step=step):
            self._remove_logs(ids)
            removed += gone
            if progress is not None:
                progress(removed)
            self.breathe(BREATH_S)
        keeping.sweep(self.workspace, self.retention.artefacts)
        return removed + self._forget_owners(rule)

    def _forget_owners(self, rule: Rule) -> Removed:
        """Remove the rows of workers that left and ran nothing that is kept, then nothing of them is left."""
        before = self.clock.now() - int((rule.older_than_s or 0.0) * 1e6)
        ids, most = self.retention.owners.forgettable(left_before=before)
        settled = [id for id in ids if self._is_gone(id)]
        forgotten = 0
        for start in range(0, len(settled), max(most, 1)):
            forgotten += self.retention.owners.forget(settled[start : start + most])
            self.breathe(BREATH_S)
        return Removed(owners=forgotten)

    def _is_gone(self, owner_id: str) -> bool:
        """Whether the process of a worker that left is gone too; its lock file, left by a kill, goes with it."""
        path = self.workspace.lock_of(owner_id)
        if not path.exists():
            return True  # the row says that it left, so nothing of it waits to be settled
        lock = Lock.take(path)
        if lock is None:
            return False  # the process may join again
        with lock:
            path.unlink(missing_ok=True)
            crash_point("purge.lock_removed")
        return True

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
