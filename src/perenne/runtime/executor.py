"""Runs one attempt: looks before it calls, calls the handler, and looks again where it must.

What does not live here: what an ending means for the job (`core.decide`), and claiming and recording (`worker`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import msgspec

from perenne.app import App
from perenne.core import events
from perenne.core.kind import Kind
from perenne.core.publication import Publication, Published
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput
from perenne.files.workspace import Workspace
from perenne.runtime import call, governor_rule, importable, lacking, lookup, saving
from perenne.runtime.attendant import Attendants
from perenne.runtime.children import Children
from perenne.runtime.clock import Clock
from perenne.runtime.context import Context
from perenne.runtime.governor import Governor
from perenne.runtime.joblog import JobLog
from perenne.runtime.keeping import Keeping
from perenne.runtime.saving import Saving
from perenne.runtime.submitter import Submitter
from perenne.runtime.watchdog import Watchdog
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim, Ledger


@dataclass(frozen=True)
class Prepared:
    """An attempt whose handler is to be called, and the monotonic time at which it began."""

    claim: Claim
    kind: Kind
    context: Context
    wishes: Wishes
    log: JobLog
    started_at: float


@dataclass(frozen=True)
class Executor:
    """What every attempt of a worker shares."""

    workspace: Workspace
    app: App
    ledger: Ledger
    clock: Clock
    watchdog: Watchdog
    attendants: Attendants
    submitter: Submitter
    governor: Governor

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        app: App,
        ledger: Ledger,
        clock: Clock,
        submitter: Submitter,
        owner: str,
        slots: int,
    ) -> Executor:
        """The executor of this worker, with nothing started yet.

        Raises: InvalidInput: a kind runs in a child, which could not find it.
        """
        importable.check(app.kinds)
        attendants = Attendants(workspace, ledger, clock, Children(workspace, owner, slots))
        governor = Governor(app.kinds, governor_rule.of(workspace), ledger.accounts, clock)
        return cls(workspace, app, ledger, clock, Watchdog(clock), attendants, submitter, governor)

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
        prepared = self.prepare(claim, wishes)
        return self.conclude(prepared, self._call(prepared)) if isinstance(prepared, Prepared) else prepared

    def prepare(self, claim: Claim, wishes: Wishes) -> Prepared | events.Ended:
        """Look before the handler is called: with what, or that it is not called at all."""
        if wishes.first == "suspend" and claim.sequence == 1:
            # Claimed ahead, never started, and the worker drains: given back unspent.
            return events.Ended(answer=events.Stopped("suspend"), published=Published.absent())
        started = self.clock.monotonic() - claim.used_ms / 1000
        kind = self.app.runner(claim.job.kind, claim.job.version)
        log = JobLog(self.workspace, claim.job.id, claim.token.number, self.clock)
        try:
            publication = lookup.identity_of(claim.job, kind, self.workspace.root)
        except InvalidInput as error:
            return self._ended(started, wishes, call.failure(kind, error, log), Published.absent())
        published = lookup.look(kind, publication)
        crash_point("run.looked_up")
        if published.state == "absent" and _comes_after_another(claim) and claim.sequence == 1:
            published = lookup.clean(kind, publication)
        if published.state != "absent":
            return self._ended(started, wishes, events.NotCalled(), published)
        try:
            missing = lacking.of(kind)
        except Exception as error:
            return self._ended(started, wishes, call.failure(kind, error, log), published)
        if missing is not None:
            return self._ended(started, wishes, missing, published)
        context = self._context(claim, publication, wishes, log, kind)
        goes_on = _comes_after_another(claim) or claim.sequence > 1
        if kind.state_type is not None and goes_on and (refused := call.restored(kind, context, log)) is not None:
            return self._ended(started, wishes, refused, published)
        return Prepared(claim, kind, context, wishes, log, started)

    def conclude(self, prepared: Prepared, answer: events.Answer) -> events.Ended:
        """Look after the handler has ended, with this answer."""
        if isinstance(answer, events.Broke):
            ended = self._ended(prepared.started_at, prepared.wishes, answer, Published.absent())
            return self._with_use(prepared, ended)
        prepared.context.remove_stage()
        crash_point("run.executed")
        answer, published = _look_after(prepared.kind, prepared.context, prepared.context.publication, answer)
        saved = prepared.context.saving.stands
        return self._with_use(prepared, self._ended(prepared.started_at, prepared.wishes, answer, published, saved))

    def _with_use(self, prepared: Prepared, ended: events.Ended) -> events.Ended:
        """The end, with what the sequence took when the governor granted it."""
        breaks, grant = prepared.context.breaks, prepared.claim.grant
        done = isinstance(ended.answer, events.Returned | events.Broke)
        if grant is None or not (done or breaks.used):
            return ended
        items, peak_bytes = breaks.used or (grant.batch, None)
        used = events.Used(items, ended.active_ms - prepared.claim.used_ms, peak_bytes or breaks.peak_bytes)
        return msgspec.structs.replace(ended, used=used)

    def limited(self, prepared: Prepared) -> AbstractContextManager[None]:
        """Around a handler in this process: past the time limit of its kind it is asked `wall`."""
        limit_s = prepared.kind.wall_limit_s
        return nullcontext() if limit_s is None else self.watchdog.over(prepared.wishes, limit_s)

    def _ended(
        self, started_at: float, wishes: Wishes, answer: events.Answer, published: Published, saved: bool = False
    ) -> events.Ended:
        active_ms = int((self.clock.monotonic() - started_at) * 1000)
        limit_used = wishes.asked("limit")
        return events.Ended(answer=answer, published=published, active_ms=active_ms, limit_used=limit_used, saved=saved)

    def _call(self, prepared: Prepared) -> events.Answer:
        kind, context, wishes, log = prepared.kind, prepared.context, prepared.wishes, prepared.log
        if prepared.claim.sequence > 1 and wishes.first is not None:
            return events.Stopped(wishes.first)  # between two sequences: it is called again only to work
        if kind.isolation == "process":
            return self.attendants.attend(kind, prepared.claim, context, wishes, log)
        with self.limited(prepared):
            return call.handler(kind, context, wishes, log)

    def _context(self, claim: Claim, publication: Publication, wishes: Wishes, log: JobLog, kind: Kind) -> Context:
        limit_ms = claim.job.active_limit_ms
        left_ms = None if limit_ms is None else limit_ms - claim.job.active_ms - claim.used_ms
        return Context(
            job=claim.job,
            token=claim.token,
            publication=publication,
            wishes=wishes,
            ledger=self.ledger,
            clock=self.clock,
            log=log,
            workspace=self.workspace,
            submitter=self.submitter,
            deadline=None if left_ms is None else self.clock.monotonic() + left_ms / 1000,
            saving=self._saving(claim, kind, log),
            keeping=Keeping(self.workspace, self.ledger.artefacts, claim.token),
            autosave_s=kind.autosave_s,
            grant=claim.grant,
            sequenced=None if claim.grant is None else self.governor.sequences_of(claim.token),
            keeps_frame=kind.keep_frame,
        )

    def _saving(self, claim: Claim, kind: Kind, log: JobLog) -> Saving:
        def say(word: str, sentence: str) -> None:
            log.write("warning", word, error=sentence)

        kept = saving.LedgerStore(self.workspace, self.ledger.checkpoints, claim.token, self.app.name, say)
        return Saving(kind, claim.token, self.workspace, kept)


def _comes_after_another(claim: Claim) -> bool:
    """Whether an earlier attempt, or one that a restore forgot, may have left something.

    Whoever ended it removed that, unless it could not look, or did not know the kind.
    """
    return claim.token.number > 1 or claim.token.epoch > 1


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
