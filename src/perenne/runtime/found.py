"""Lets jobs go on that waited for a tool or a confinement, now that it is here.

What does not live here: what is lacking (`lacking`), and who stops for it (`executor`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from perenne.app import App
from perenne.core import events
from perenne.core.kind import Kind
from perenne.errors import AlreadyFinished, NotAllowed
from perenne.runtime import lacking
from perenne.runtime.clock import Clock
from perenne.runtime.joblog import JobLog
from perenne.runtime.saying import said
from perenne.store.ledger import Ledger
from perenne.store.reader import Reader


@dataclass(frozen=True)
class Found:
    """Everything that letting them go takes."""

    app: App
    ledger: Ledger
    reader: Reader
    clock: Clock
    log: JobLog
    actor: str

    def release(self) -> None:
        """Release every job that waited for what is here now."""
        for job_id in self.reader.blocked():
            job = self.reader.job(job_id)
            if job.reason not in lacking.REASONS or not self.app.knows(job.kind, job.version):
                continue
            if self._is_here(self.app.runner(job.kind, job.version)):
                with contextlib.suppress(NotAllowed, AlreadyFinished):  # someone was faster
                    event = events.Release(job.reason.replace("_missing", "_found"))
                    self.ledger.tell(job_id, event, now=self.clock.now(), actor=self.actor)

    def _is_here(self, kind: Kind) -> bool:
        try:
            return lacking.of(kind) is None
        except Exception as error:
            self.log.write("error", "missing_failed", kind=str(kind), error=said(error))
            return False
