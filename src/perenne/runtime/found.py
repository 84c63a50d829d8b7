"""Lets jobs go on that waited for a tool, now that it is here.

What does not live here: who finds out that a tool is missing (`executor`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from perenne.app import App
from perenne.core import events
from perenne.core.kind import Kind
from perenne.errors import AlreadyFinished, NotAllowed
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
        """Release every job whose missing tool is here."""
        for job_id in self.reader.blocked():
            job = self.reader.job(job_id)
            if job.reason != "tool_missing" or not self.app.knows(job.kind, job.version):
                continue
            if self._has_tool(self.app.kind(job.kind, job.version)):
                with contextlib.suppress(NotAllowed, AlreadyFinished):  # someone was faster
                    event = events.Release("tool_found")
                    self.ledger.tell(job_id, event, now=self.clock.now(), actor=self.actor)

    def _has_tool(self, kind: Kind) -> bool:
        try:
            return kind.missing is None or kind.missing() is None
        except Exception as error:
            self.log.write("error", "missing_failed", kind=str(kind), error=said(error))
            return False
