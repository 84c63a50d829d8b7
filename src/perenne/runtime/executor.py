"""Runs one attempt: looks before it calls, calls the handler, and looks again where it must.

What does not live here: what an ending means for the job (`core.decide`), and claiming and recording (`worker`).
"""

from __future__ import annotations

from dataclasses import dataclass

from perenne.app import App
from perenne.core import events
from perenne.core.kind import Kind
from perenne.core.publication import Publication, Published
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput
from perenne.files.workspace import Workspace
from perenne.runtime import call, importable, lacking, lookup
from perenne.runtime.attendant import Attendants
from perenne.runtime.children import Children
from perenne.runtime.clock import Clock
from perenne.runtime.context import Context
from perenne.runtime.joblog import JobLog
from perenne.runtime.watchdog import Watchdog
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim, Ledger


@dataclass(frozen=True)
class Executor:
    """What every attempt of a worker shares."""

    workspace: Workspace
    app: App
    ledger: Ledger
    clock: Clock
    watchdog: Watchdog
    attendants: Attendants

    @classmethod
    def of(cls, workspace: Workspace, app: App, ledger: Ledger, clock: Clock, owner: str, slots: int) -> Executor:
        """The executor of this worker, with nothing started yet.

        Raises: InvalidInput: a kind runs in a child, which could not find it.
        """
        importable.check(app.kinds)
        attendants = Attendants(workspace, ledger, clock, Children(workspace, owner, slots))
        return cls(workspace, app, ledger, clock, Watchdog(clock), attendants)

    def begin(self, *, stay: bool) -> None:
        """A worker that stays has its children ready before there is work."""
        if stay:
            self.attendants.children.warm(self.app.kinds)

    def close(self) -> None:
        """No attempt runs any more; let go of what they were run with."""
        self.watchdog.close()
        self.attendants.children.close()

    def perform(self, claim: Claim, wishes: Wishes) -> events.Ended:
        """Run the claimed attempt; all that is known at its end. Nothing is recorded yet."""
        if wishes.first == "suspend":
            # Claimed ahead, never started, and the worker drains: given back unspent.
            return events.Ended(answer=events.Stopped("suspend"), published=Published.absent())
        started = self.clock.monotonic()
        answer, published = self._perform(claim, wishes)
        return events.Ended(
            answer=answer,
            published=published,
            active_ms=int((self.clock.monotonic() - started) * 1000),
            limit_used=wishes.asked("limit"),
        )

    def _perform(self, claim: Claim, wishes: Wishes) -> tuple[events.Answer, Published]:
        kind = self.app.kind(claim.job.kind, claim.job.version)
        log = JobLog(self.workspace, claim.job.id, claim.token.number, self.clock)
        try:
            publication = lookup.identity_of(claim.job, kind, self.workspace.root)
        except InvalidInput as error:
            return call.failure(kind, error, log), Published.absent()
        published = lookup.look(kind, publication)
        crash_point("run.looked_up")
        if published.state != "absent":
            return events.NotCalled(), published
        try:
            missing = lacking.of(kind)
        except Exception as error:
            return call.failure(kind, error, log), published
        if missing is not None:
            return missing, published
        context = self._context(claim, publication, wishes, log)
        answer = self._call(kind, claim, context, wishes, log)
        context.remove_stage()
        crash_point("run.executed")
        return _look_after(kind, context, publication, answer)

    def _call(self, kind: Kind, claim: Claim, context: Context, wishes: Wishes, log: JobLog) -> events.Answer:
        if kind.isolation == "process":
            return self.attendants.attend(kind, claim, context, wishes, log)
        if kind.wall_limit_s is None:
            return call.handler(kind, context, wishes, log)
        with self.watchdog.over(wishes, kind.wall_limit_s):
            return call.handler(kind, context, wishes, log)

    def _context(self, claim: Claim, publication: Publication, wishes: Wishes, log: JobLog) -> Context:
        left_ms = None if claim.job.active_limit_ms is None else claim.job.active_limit_ms - claim.job.active_ms
        return Context(
            job=claim.job,
            token=claim.token,
            publication=publication,
            wishes=wishes,
            ledger=self.ledger,
            clock=self.clock,
            log=log,
            workspace=self.workspace,
            deadline=None if left_ms is None else self.clock.monotonic() + left_ms / 1000,
        )


def _look_after(
    kind: Kind, context: Context, publication: Publication, answer: events.Answer
) -> tuple[events.Answer, Published]:
    """What is published once the handler is done. A plain return after `publish` needs no second look."""
    if kind.lookup is None:
        return answer, Published.absent()
    if context.published and isinstance(answer, events.Returned):
        return answer, Published.coherent()
    published = lookup.look(kind, publication)
    if published.state == "absent":
        published = lookup.clean(kind, publication)
    if published.state == "absent" and isinstance(answer, events.Returned):
        unpublished = f"the handler of {kind} returned without its final publication"
        return events.Raised(unpublished, retryable=False, backoff=kind.backoff), published
    return answer, published
