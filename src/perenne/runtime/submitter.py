"""Brings requests into the ledger: those of callers, and those of running attempts under their token.

What does not live here: what a request is made of (`request`), how it becomes a row (`store.intake`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perenne.app import App
from perenne.core.job import Job, Receipt, Submission, Token
from perenne.core.kind import Kind
from perenne.crashpoints import crash_point
from perenne.errors import QueueFull
from perenne.files.workspace import Workspace
from perenne.runtime import request
from perenne.runtime.clock import Clock
from perenne.runtime.ends import Ends
from perenne.runtime.luck import Luck
from perenne.runtime.patience import patiently
from perenne.store.ledger import Ledger


@dataclass(frozen=True)
class Submitter:
    """What every submit of one open workspace passes through."""

    workspace: Workspace
    app: App
    ledger: Ledger
    clock: Clock
    luck: Luck
    ends: Ends
    read: Callable[[str], Job]
    actor: str

    def request(self, kind: Kind | str, input: object, wishes: Mapping[str, Any]) -> Submission:
        """As `Engine.request`."""
        return request.make(self.app, kind, input, request.read(wishes), now=self.clock.now(), luck=self.luck)

    def request_child(
        self, parent: str, kind: Kind | str, input: object, name: str | None, wishes: Mapping[str, Any]
    ) -> Submission:
        """As `Context.request` of an attempt of the job `parent`."""
        now = self.clock.now()
        return request.make_child(self.app, kind, input, request.read(wishes), parent=parent, name=name, now=now)

    def enter(self, batch: Sequence[Submission], patience_s: float, token: Token | None = None) -> list[Receipt]:
        """Store all or none, and wake idle workers; with patience, wait for room in a full queue.

        Args: token: of the running attempt whose children they are.
        Raises: as `Engine.submit_many`. StaleToken: the attempt has lost its right; nothing was stored.
        """
        try:
            receipts = self._store(batch, token)
        except QueueFull:
            if patience_s <= 0:
                raise
            folder = self.workspace.wake_folder
            receipts = patiently(lambda: self._store(batch, token), patience_s, folder, self.clock)
        crash_point("submit.woken")
        return receipts

    def _store(self, batch: Sequence[Submission], token: Token | None) -> list[Receipt]:
        """As `_submit`; a job that fails as it is stored, since a dependency ended badly, is told like any other."""
        if len(batch) == 1 and not batch[0].dependencies:
            return self._submit(batch, token)
        with self.ends.ending():
            receipts = self._submit(batch, token)
            self.ends.tell_failed(receipts, self.read)
        return receipts

    def _submit(self, batch: Sequence[Submission], token: Token | None) -> list[Receipt]:
        now = self.clock.now()
        if token is not None:
            return self.ledger.submit_many(batch, now=now, actor=f"job:{token.job_id}", token=token)
        if len(batch) == 1:
            return [self.ledger.submit(batch[0], now=now, actor=self.actor)]
        return self.ledger.submit_many(batch, now=now, actor=self.actor)
