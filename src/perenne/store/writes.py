"""The guarded writes of one job's row, and what each leaves beside it: its line, its count, its attempt, its notice.

What does not live here: which change it is (`core.decide`), and what follows for other jobs (`dependants`).
"""

from __future__ import annotations

import msgspec

from perenne.core import events
from perenne.core.decide import Ask, Change, decide
from perenne.core.job import Job, Outcome, Token
from perenne.core.states import FINAL, JobState
from perenne.errors import StaleToken
from perenne.store import rows
from perenne.store.driver import Transaction


def read(tx: Transaction, seq: int) -> Job:
    """The job as it stands; after a write this takes a third of the time that `returning` its row would."""
    row = tx.one("job_by_seq", seq=seq)
    assert row is not None
    return rows.job(row)


def step(tx: Transaction, job: Job, event: events.Event, actor: str, now: int) -> Job:
    """A move that follows from another one; its own followers are the caller's business."""
    change = change_by(event, job, now)
    moved = write_waiting(tx, job, change, now)
    record(tx, job, change, actor, now)
    return moved


def change_by(event: events.Event, job: Job, now: int) -> Change:
    """The change that an event makes which is never a mere wish."""
    change = decide(job, event, now)
    assert isinstance(change, Change)
    return change


def write_waiting(tx: Transaction, job: Job, change: Change, now: int) -> Job:
    """Write the change of a job that is not running; the job as it stands then."""
    again = change.verb == "requeue"
    keeps = change.verb in ("pause", "resume")
    touched = tx.run(
        "move_job",
        seq=job.seq,
        from_state=job.state,
        revision=job.revision,
        to_state=change.to,
        reason=change.reason,
        due_at=job.due_at_by(now) if change.due_at is None else change.due_at,
        spent=_spent(job, change),
        failures=0 if again else job.failures,
        interruptions=0 if again else job.interruptions,
        unmet=0 if change.verb == "release" else job.unmet,
        cancel_asked=0 if change.to not in FINAL else job.cancel_asked,
        active_ms=0 if _starts_anew(change) else job.active_ms,
        diagnostic=job.diagnostic if keeps else change.diagnostic,
        finished_at=now if change.to in FINAL else None,
        now=now,
    )
    assert touched == 1, "the row changed inside our own transaction"
    if change.verb == "release" and job.unmet:
        tx.run("waive_dependencies", job=job.seq)
    return read(tx, job.seq)


def _spent(job: Job, change: Change) -> int:
    """A person who lets a job go on gives it at least one attempt; who settles it changes no count."""
    if change.verb == "requeue":
        return 0
    if change.verb in ("release", "resume", "resolve") and change.to not in FINAL:
        return min(job.spent, job.max_attempts - 1)
    return job.spent


def _starts_anew(change: Change) -> bool:
    """Whoever is let go on may use its whole active time again; what it used before stands in its attempts."""
    return change.verb in ("release", "requeue", "resolve") and change.to not in FINAL


def write_ending(tx: Transaction, job: Job, change: Change, token: Token, active_ms: int, now: int) -> Job:
    """Write the end of the running attempt; the job as it stands then.

    Raises: StaleToken.
    """
    ended = _ended(job, change, active_ms, now)
    touched = tx.run(
        "end_attempt",
        seq=job.seq,
        attempt=token.attempt,
        number=token.number,
        epoch=token.epoch,
        to_state=ended.state,
        reason=ended.reason,
        due_at=ended.due_at,
        spent=ended.spent,
        failed=change.outcome is Outcome.FAILED,
        interrupted=change.outcome is Outcome.INTERRUPTED,
        active_ms=active_ms,
        result=ended.result,
        diagnostic=ended.diagnostic,
        finished_at=ended.finished_at,
        now=now,
    )
    if not touched:
        raise stale(job.id, token, job)
    return ended


def _ended(job: Job, change: Change, active_ms: int, now: int) -> Job:
    """As the row will stand; to read it again would take three times as long, and a test compares the two."""
    return msgspec.structs.replace(
        job,
        state=change.to,
        reason=change.reason,
        due_at=job.due_at if change.due_at is None else change.due_at,
        attempt=None,
        spent=job.spent if change.spends else job.spent - 1,
        failures=job.failures + (change.outcome is Outcome.FAILED),
        interruptions=job.interruptions + (change.outcome is Outcome.INTERRUPTED),
        active_ms=job.active_ms + active_ms,
        pause_asked=False,
        result=change.result,
        diagnostic=change.diagnostic,
        finished_at=now if change.to in FINAL else None,
        updated_at=now,
        revision=job.revision + 1,
    )


def stale(job_id: str, token: Token, job: Job | None) -> StaleToken:
    """The error of a late writer."""
    held = f"attempt {job.number}, {job.state}" if job else "no such job"
    return StaleToken(
        f"job {job_id}: attempt {token.number} ({token.attempt}) has lost its right to write ({held}); drop its report",
        job_id=job_id,
        given=token.attempt,
        held=job.attempt if job else None,
    )


def close_attempt(tx: Transaction, job: Job, change: Change, token: Token, active_ms: int, now: int) -> None:
    tx.run(
        "close_attempt",
        job=job.seq,
        number=token.number,
        id=token.attempt,
        outcome=change.outcome,
        reason=change.reason,
        spent=change.spends,
        active_ms=active_ms,
        diagnostic=change.diagnostic,
        now=now,
    )


def record(tx: Transaction, job: Job, change: Change, actor: str, now: int) -> None:
    """What every move leaves: its line of history, the count of its queue, and a notice when the job ended."""
    log(tx, job, change.verb, change.to, change.reason, actor=actor, now=now)
    if change.to in FINAL:
        tx.run("leave_place", name=job.queue)
        tx.run("insert_notices", job=job.seq, job_id=job.id, revision=job.revision + 1, state=change.to, now=now)


def ask(tx: Transaction, job: Job, verb: str, wish: Ask, *, actor: str, now: int) -> Job:
    """Note what is asked of the running attempt; nothing is written when that stands there already."""
    if (wish.cancel, wish.pause) == (job.cancel_asked, job.pause_asked):
        return job
    asked = {"cancel_asked": wish.cancel, "pause_asked": wish.pause, "now": now}
    touched = tx.run("ask_job", seq=job.seq, attempt=job.attempt, **asked)
    assert touched == 1, "the row changed inside our own transaction"
    log(tx, job, f"ask_{verb}", job.state, wish.reason, actor=actor, now=now)
    return read(tx, job.seq)


def note(tx: Transaction, job: Job, reason: str, diagnostic: str | None) -> None:
    tx.run("note_blocked", seq=job.seq, reason=reason, diagnostic=diagnostic)


def log(
    tx: Transaction, job: Job, verb: str, to: JobState, reason: str, *, actor: str, now: int, number: int | None = None
) -> None:
    """One line of history about a job."""
    write_line(tx, job.seq, f"job:{job.id}", verb, job.state, to, reason, actor, now, number or job.number or None)


def write_line(
    tx: Transaction,
    job: int | None,
    subject: str,
    verb: str,
    from_state: JobState | None,
    to_state: JobState | None,
    reason: str,
    actor: str,
    now: int,
    number: int | None,
) -> None:
    """One line of history."""
    tx.run(
        "insert_history",
        job=job,
        subject=subject,
        verb=verb,
        from_state=from_state,
        to_state=to_state,
        reason=reason,
        actor=actor,
        now=now,
        number=number,
    )
