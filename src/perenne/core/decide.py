"""The only rule maker: a job, an event, the time and some luck go in; a change comes out.

What lives here: which row of the table an event picks, and E-S2's order of precedence. What does not: clocks, files,
SQL; the ledger carries the change out, guarded.
"""

from __future__ import annotations

import msgspec

from perenne.core import events, limits
from perenne.core.job import Job, Outcome
from perenne.core.publication import Published
from perenne.core.states import FINAL, TRANSITIONS, JobState, Spends
from perenne.errors import AlreadyFinished, InvalidInput, NotAllowed


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written about one job."""

    verb: str
    to: JobState
    reason: str
    outcome: Outcome | None = None  # of the attempt that ends here
    spends: bool = False  # whether that attempt counts
    due_at: int | None = None  # None: as it was
    result: bytes | None = None
    diagnostic: str | None = None


class Ask(msgspec.Struct, frozen=True):
    """A wish that the running attempt will meet at its next boundary; no change of state."""

    cancel: bool
    pause: bool
    reason: str


def decide(job: Job | None, event: events.Event, now: int, luck: float = 0.0) -> Change | Ask:
    """The change that this event makes of this job.

    Args: now: UTC microseconds. luck: uniform in [0, 1), spreads retries.
    Raises: NotAllowed, AlreadyFinished: the table has no such row. Nothing is to be written then.
    """
    change = _pick(job, event, now, luck)
    if not isinstance(change, Change):
        return change
    _check(job, change)
    reason, diagnostic = limits.clip(change.reason), limits.clip(change.diagnostic or "") or None
    if (reason, diagnostic) == (change.reason, change.diagnostic):
        return change
    return msgspec.structs.replace(change, reason=reason, diagnostic=diagnostic)


def _check(job: Job | None, change: Change) -> None:
    """Some verbs stand in the table both with and without an attempt that ends: only a running job has one."""
    source = job.state if job else None
    spends = TRANSITIONS.get((source, change.verb, change.to))
    if spends is None or (change.outcome is not None) != (source is JobState.RUNNING):
        raise _refusal(job, change.verb)
    assert change.spends == (spends is Spends.YES) or spends is Spends.EITHER, (source, change)


def _refusal(job: Job | None, verb: str) -> NotAllowed | AlreadyFinished:
    assert job is not None
    facts = {"job_id": job.id, "state": str(job.state), "verb": verb}
    if job.state in FINAL:
        return AlreadyFinished(
            f"job {job.id}: {verb} is too late, it is {job.state}; look with `perenne show`", **facts
        )
    return NotAllowed(
        f"job {job.id}: {verb} is not allowed while it is {job.state}; see docs/life-of-a-job.md", **facts
    )


def _pick(job: Job | None, event: events.Event, now: int, luck: float) -> Change | Ask:
    if isinstance(event, events.Submit):
        return _waiting("submit", event.unmet, "submitted")
    assert job is not None
    match event:
        case events.Ended():
            return _ended(job, event, now, luck)
        case events.Interrupted(published):
            return _interrupted(job, published)
        case events.Claim():
            return _claim(job, now)
        case events.Cancel(reason) | events.Pause(reason) | events.Resume(reason) if job.state is JobState.RUNNING:
            return _ask(job, event, reason)
        case events.Cancel(reason):
            return Change(verb="cancel", to=JobState.CANCELLED, reason=_written(job, reason), diagnostic=reason)
        case events.Pause(reason):
            return Change(verb="pause", to=JobState.PAUSED, reason=_written(job, reason))
        case events.Resume(reason):
            return _resume(job, _written(job, reason), now)
        case events.Release(reason):
            return Change(verb="release", to=JobState.QUEUED, reason=_written(job, reason))
        case events.FailDependency(dependency):
            sentence = f"dependency {dependency} ended badly"
            return Change(verb="fail", to=JobState.FAILED, reason="dependency_failed", diagnostic=sentence)
        case events.Block(reason, diagnostic):
            return Change(verb="block", to=JobState.BLOCKED, reason=reason, diagnostic=diagnostic)
        case events.Reject(sentence):
            return Change(verb="reject", to=JobState.FAILED, reason="rejected", diagnostic=sentence)
        case events.LackBudget(sentence):
            return Change(verb="quota", to=JobState.PAUSED_QUOTA, reason="budget_spent", diagnostic=sentence)
        case events.Resolve(to, reason, from_start):
            if from_start and to is not JobState.QUEUED:
                raise InvalidInput(
                    f"job {job.id}: from_start: a job that is {to} does not run again; leave it out, or give QUEUED",
                    field="from_start",
                )
            return Change(verb="resolve", to=to, reason=_written(job, reason), due_at=0)
        case events.Requeue(reason, unmet):
            # A claim cleared the time that was given at submit; what stands there since is an old backoff or snooze.
            return _waiting("requeue", unmet, _written(job, reason), due_at=0 if job.number else None)
    raise NotImplementedError(event)


def _waiting(verb: str, unmet: int, reason: str, due_at: int | None = None) -> Change:
    if unmet:
        return Change(verb=verb, to=JobState.BLOCKED, reason="waiting_for_dependencies", due_at=due_at)
    return Change(verb=verb, to=JobState.QUEUED, reason=reason, due_at=due_at)


def _written(job: Job, reason: str) -> str:
    if not isinstance(reason, str) or not reason.strip():
        shown = repr(reason) if reason else "empty"
        raise InvalidInput(
            f"job {job.id}: reason: {shown}; write why, it stays in the history", field="reason", value=reason
        )
    limits.check_size("reason", len(reason.encode("utf-8", "replace")), limits.DIAGNOSTIC_BYTES, "say it shorter")
    return limits.clip(reason)


def _claim(job: Job, now: int) -> Change:
    if job.state in (JobState.QUEUED, JobState.RETRY_WAIT) and job.due_at > now:
        raise NotAllowed(f"job {job.id}: claim: it is due only at {job.due_at} (UTC microseconds)", job_id=job.id)
    return Change(verb="claim", to=JobState.RUNNING, reason="claimed", due_at=0)


def _ask(job: Job, event: events.Event, reason: str) -> Ask:
    reason = _written(job, reason)
    if isinstance(event, events.Cancel):
        return Ask(True, job.pause_asked, reason)
    return Ask(job.cancel_asked, isinstance(event, events.Pause), reason)


def _resume(job: Job, reason: str, now: int) -> Change:
    if job.unmet:
        return Change(verb="resume", to=JobState.BLOCKED, reason="waiting_for_dependencies")
    if job.state is JobState.PAUSED and job.due_at_by(now) > now:
        return Change(verb="resume", to=JobState.RETRY_WAIT, reason=reason)
    return Change(verb="resume", to=JobState.QUEUED, reason=reason)


def _ended(job: Job, end: events.Ended, now: int, luck: float) -> Change:
    """E-S2, the first line that holds; line 1, the token, was the ledger's."""
    answer, published = end.answer, end.published
    if published.state == "coherent":
        return _complete_published(job, end)
    if published.state != "absent":
        return _doubt(published.finding or "the publication could not be read")
    if end.overrun:
        return _end("bury", JobState.DEAD, "budget_overrun", Outcome.FAILED, diagnostic=end.overrun)
    if job.cancel_asked:
        return _end("cancel", JobState.CANCELLED, "cancelled_at_boundary", Outcome.CANCELLED)
    if end.limit_used:
        return _end("block", JobState.BLOCKED, "active_time_limit", Outcome.BLOCKED)
    return _answered(job, answer, now, luck)


def _complete_published(job: Job, end: events.Ended) -> Change:
    called = not isinstance(end.answer, events.NotCalled | events.Missing)
    beside = [
        text for text, holds in (("cancel asked", job.cancel_asked), ("active time used up", end.limit_used)) if holds
    ]
    beside += [f"overrun: {end.overrun}"] if end.overrun else []
    beside += _objections(end.answer)
    result = end.answer.result if isinstance(end.answer, events.Returned) else end.published.result
    return Change(
        verb="complete",
        to=JobState.COMPLETED,
        reason="published" if called else "published_before_start",
        outcome=Outcome.COMPLETED,
        spends=called,
        result=result,
        diagnostic="; ".join(beside),
    )


def _objections(answer: events.Answer) -> list[str]:
    """What the handler said against its own publication."""
    match answer:
        case events.Raised(words) | events.GaveUp(words) | events.Doubted(words):
            return [words]
    return []


def _answered(job: Job, answer: events.Answer, now: int, luck: float) -> Change:
    match answer:
        case events.Returned(result):
            return _end("complete", JobState.COMPLETED, "completed", Outcome.COMPLETED, result=result)
        case events.Raised():
            return _failed(job, answer, now, luck)
        case events.GaveUp(reason):
            return _end("fail", JobState.FAILED, "gave_up", Outcome.FAILED, diagnostic=reason)
        case events.Doubted(finding, reason):
            return _doubt(finding, reason)
        case events.Missing(sentence, reason):
            return _end("block", JobState.BLOCKED, reason, Outcome.BLOCKED, spends=False, diagnostic=sentence)
        case events.Snoozed(seconds, reason):
            # In this order, what is no number at all becomes the least wait.
            wait_s = min(max(limits.SNOOZE_LEAST_S, seconds), limits.WAIT_MOST_S)
            due_at, reason = now + int(wait_s * 1e6), reason or "snoozed"
            return _end("snooze", JobState.RETRY_WAIT, reason, Outcome.SNOOZED, spends=False, due_at=due_at)
        case events.Stopped("quota"):
            return _end("quota", JobState.PAUSED_QUOTA, "budget_spent", Outcome.QUOTA, spends=False)
        case events.Stopped("pause") if job.pause_asked:
            return _end("pause", JobState.PAUSED, "paused_at_boundary", Outcome.PAUSED, spends=False)
        case events.Stopped():
            # A wish that was taken back, or a stopped worker: the job goes on later, nothing was its fault.
            return _end("suspend", JobState.QUEUED, "suspended", Outcome.SUSPENDED, spends=False, due_at=0)
    raise NotImplementedError(answer)


def _failed(job: Job, error: events.Raised, now: int, luck: float) -> Change:
    if not error.retryable:
        return _end("fail", JobState.FAILED, "permanent_error", Outcome.FAILED, diagnostic=error.diagnostic)
    if job.attempts_left <= 0:
        return _end("fail", JobState.FAILED, "attempts_exhausted", Outcome.FAILED, diagnostic=error.diagnostic)
    due_at = now + int(error.backoff.delay_s(job.failures + 1, luck) * 1e6)
    return _end("retry", JobState.RETRY_WAIT, "error", Outcome.FAILED, due_at=due_at, diagnostic=error.diagnostic)


def _interrupted(job: Job, published: Published) -> Change:
    """The table of section 6: what a dead owner left, settled."""
    apart = job.max_interruptions is not None
    if published.state == "coherent":
        change = _end("complete", JobState.COMPLETED, "recovered_after_publish", Outcome.COMPLETED)
        return msgspec.structs.replace(change, result=published.result, diagnostic="recovered_after_publish")
    if published.state != "absent":
        return _doubt(published.finding or "the publication could not be read")
    if job.cancel_asked:
        return _end("cancel", JobState.CANCELLED, "cancelled_after_worker_death", Outcome.CANCELLED)
    if job.pause_asked:
        return _end("pause", JobState.PAUSED, "paused_after_worker_death", Outcome.INTERRUPTED, spends=not apart)
    if job.outlives_interruption:
        reason = "interrupted_before_publish"
        return _end("requeue_interrupted", JobState.QUEUED, reason, Outcome.INTERRUPTED, spends=not apart, due_at=0)
    return _end("bury", JobState.DEAD, f"{'interruptions' if apart else 'attempts'}_exhausted", Outcome.INTERRUPTED)


def _doubt(finding: str, reason: str = "publication_in_doubt") -> Change:
    return _end("doubt", JobState.RECOVERY_REQUIRED, reason, Outcome.DOUBTED, diagnostic=finding)


def _end(
    verb: str,
    to: JobState,
    reason: str,
    outcome: Outcome,
    *,
    spends: bool = True,
    due_at: int | None = None,
    result: bytes | None = None,
    diagnostic: str | None = None,
) -> Change:
    """An ending; without a finding of its own the reason is the diagnostic, so that nobody meets an empty one."""
    text = diagnostic or (None if verb == "complete" else reason)
    return Change(
        verb=verb, to=to, reason=reason, outcome=outcome, spends=spends, due_at=due_at, result=result, diagnostic=text
    )
