"""Carries one change out: the guarded write of the row, then all that follows from it in the same transaction.

What follows: the history line, the count of the queue, the end of the attempt, notices, and the jobs that waited for
this one. What does not live here: which change it is (`core.decide`), and transactions (`ledger`).
"""

from __future__ import annotations

from collections import deque

from perenne.core import events
from perenne.core.decide import Change, decide
from perenne.core.job import Job, OnDependency, Outcome, Token
from perenne.core.states import FINAL, JobState
from perenne.errors import DuplicateJob, QueueFull, StaleToken
from perenne.store import rows
from perenne.store.driver import Transaction

_WAITS = frozenset({JobState.QUEUED, JobState.RETRY_WAIT})
_GOES_ON = _WAITS | {JobState.BLOCKED}
# Why a job is BLOCKED, as far as dependencies are the reason; any other is lifted by whoever can lift it.
_BY_DEPENDENCIES = frozenset({"waiting_for_dependencies", "dependency_failed", "dependency_requeued"})


def move(tx: Transaction, job: Job, change: Change, *, actor: str, now: int) -> list[Job]:
    """Carry out a change of a job that is not running; the job as it stands afterwards, then whoever ended with it.

    Raises: QueueFull, DuplicateJob: a person starts a finished job again, but its queue is full, or another job holds
    its active key; nothing is written.
    """
    if change.verb == "requeue":
        _enter_again(tx, job)
    return _follow(tx, job, _write_waiting(tx, job, change, now), change, actor, now)


def end(tx: Transaction, job: Job, change: Change, token: Token, *, active_ms: int, actor: str, now: int) -> list[Job]:
    """Carry out the change that ends the running attempt, under its token; answers as `move`.

    Raises: StaleToken: the row is no longer this attempt's; nothing is written.
    """
    moved = _write_ending(tx, job, change, token, active_ms, now)
    _close_attempt(tx, job, change, token, active_ms, now)
    ended = _follow(tx, job, moved, change, actor, now)
    if job.pause_asked and ended[0].state in _GOES_ON:
        # The attempt ended for another reason before it met the pause; the wish outlives it.
        return move(tx, ended[0], _change(ended[0], events.Pause(), now), actor=actor, now=now)
    return ended


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


def _enter_again(tx: Transaction, job: Job) -> None:
    if job.unique_key is not None:
        refuse_second(tx, job.unique_key)
    if not tx.run("take_place", name=job.queue):
        row = tx.one("read_queue", name=job.queue)
        raise queue_full(job.queue, row[1] if row else 0)


def refuse_second(tx: Transaction, unique_key: str) -> None:
    """Raises: DuplicateJob: an unfinished job holds this active key."""
    active = tx.one("active_job", unique_key=unique_key)
    if active is not None:
        raise DuplicateJob(
            f"unique_key {unique_key!r}: job {active[0]} is not finished yet; wait for it or cancel it",
            field="unique_key",
            job_id=active[0],
        )


def queue_full(queue: str, capacity: int) -> QueueFull:
    """The error that names the queue, its bound and what to do."""
    return QueueFull(
        f"queue {queue}: {capacity} unfinished jobs, the limit is {capacity}; "
        f"let some end, cancel some, or raise the limit",
        queue=queue,
        value=capacity,
        limit=capacity,
    )


def settle_blocked(tx: Transaction, job: Job, *, actor: str, now: int) -> list[Job]:
    """A BLOCKED job whose dependency ended badly fails, if that is its policy; else it says so. Answers as `move`."""
    dependency = _bad_need(tx, job) if job.state is JobState.BLOCKED else None
    if dependency is None:
        return [job]
    settled = _meet_bad_end(tx, job, dependency, actor, now)
    return [settled, *_free_dependants(tx, settled, actor, now)]


def _bad_need(tx: Transaction, job: Job) -> str | None:
    """The first dependency that ended badly and that nobody went on without."""
    needs = tx.all("needs_of_job", job=job.seq)
    return next(
        (id for id, state, waived in needs if state in FINAL and state != JobState.COMPLETED and not waived), None
    )


def _change(job: Job, event: events.Event, now: int) -> Change:
    change = decide(job, event, now)
    assert isinstance(change, Change)
    return change


def _write_waiting(tx: Transaction, job: Job, change: Change, now: int) -> Job:
    again = change.verb == "requeue"
    keeps = change.verb in ("pause", "resume")
    row = tx.one(
        "move_job",
        seq=job.seq,
        from_state=job.state,
        revision=job.revision,
        to_state=change.to,
        reason=change.reason,
        due_at=job.due_at if change.due_at is None else change.due_at,
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
    assert row is not None, "the row changed inside our own transaction"
    if change.verb == "release" and job.unmet:
        tx.run("waive_dependencies", job=job.seq)
    return rows.job(row)


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


def _write_ending(tx: Transaction, job: Job, change: Change, token: Token, active_ms: int, now: int) -> Job:
    row = tx.one(
        "end_attempt",
        seq=job.seq,
        attempt=token.attempt,
        number=token.number,
        epoch=token.epoch,
        to_state=change.to,
        reason=change.reason,
        due_at=job.due_at if change.due_at is None else change.due_at,
        spent=job.spent if change.spends else job.spent - 1,
        failed=change.outcome is Outcome.FAILED,
        interrupted=change.outcome is Outcome.INTERRUPTED,
        active_ms=active_ms,
        result=change.result,
        diagnostic=change.diagnostic,
        finished_at=now if change.to in FINAL else None,
        now=now,
    )
    if row is None:
        raise stale(job.id, token, job)
    return rows.job(row)


def stale(job_id: str, token: Token, job: Job | None) -> StaleToken:
    """The error of a late writer."""
    held = f"attempt {job.number}, {job.state}" if job else "no such job"
    return StaleToken(
        f"job {job_id}: attempt {token.number} ({token.attempt}) has lost its right to write ({held}); drop its report",
        job_id=job_id,
        given=token.attempt,
        held=job.attempt if job else None,
    )


def _close_attempt(tx: Transaction, job: Job, change: Change, token: Token, active_ms: int, now: int) -> None:
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


def _follow(tx: Transaction, job: Job, moved: Job, change: Change, actor: str, now: int) -> list[Job]:
    _record(tx, job, change, actor, now)
    return [moved, *_free_dependants(tx, moved, actor, now)]


def _record(tx: Transaction, job: Job, change: Change, actor: str, now: int) -> None:
    """What every move leaves: its line of history, the count of its queue, and a notice when the job ended."""
    log(tx, job, change.verb, change.to, change.reason, actor=actor, now=now)
    if change.to in FINAL:
        tx.run("leave_place", name=job.queue)
        tx.run("insert_notices", job=job.seq, job_id=job.id, revision=job.revision + 1, state=change.to, now=now)


def read(tx: Transaction, seq: int) -> Job:
    row = tx.one("job_by_seq", seq=seq)
    assert row is not None
    return rows.job(row)


def _free_dependants(tx: Transaction, ended: Job, actor: str, now: int) -> list[Job]:
    """Release or fail whoever waited for this job, in the transaction that ends it; answers who failed thereby."""
    ends = deque([ended] if ended.is_final else [])
    also_ended: list[Job] = []
    while ends:
        end_of = ends.popleft()
        for place, waived in tx.all("dependants_of_job", needs=end_of.seq):
            if not waived:
                freed = _meet_end(tx, place, end_of, actor, now)
                if freed is not None:
                    ends.append(freed)
                    also_ended.append(freed)
    return also_ended


def _meet_end(tx: Transaction, place: int, ended: Job, actor: str, now: int) -> Job | None:
    """What the end of a dependency does to one job that waits; the job, if it ended thereby."""
    completed = ended.state is JobState.COMPLETED
    if completed:
        tx.run("lower_unmet", job=place)
    waiting = read(tx, place)
    if waiting.state is not JobState.BLOCKED:
        return None
    if not completed:
        met = _meet_bad_end(tx, waiting, ended.id, actor, now)
        return met if met.is_final else None
    if not waiting.unmet and waiting.reason in _BY_DEPENDENCIES:
        _step(tx, waiting, events.Release("dependencies_completed"), actor, now)
    return None


def _meet_bad_end(tx: Transaction, waiting: Job, dependency: str, actor: str, now: int) -> Job:
    if waiting.on_dependency is OnDependency.FAIL:
        return _step(tx, waiting, events.FailDependency(dependency), actor, now)
    if waiting.reason in _BY_DEPENDENCIES:
        _note(tx, waiting, "dependency_failed", f"dependency {dependency} ended badly", now)
    return read(tx, waiting.seq)


def _step(tx: Transaction, job: Job, event: events.Event, actor: str, now: int) -> Job:
    """A move that follows from another one; its own followers are the caller's business."""
    change = _change(job, event, now)
    moved = _write_waiting(tx, job, change, now)
    _record(tx, job, change, actor, now)
    return moved


def _note(tx: Transaction, job: Job, reason: str, diagnostic: str | None, now: int) -> None:
    tx.run("note_blocked", seq=job.seq, reason=reason, diagnostic=diagnostic, now=now)


def wait_again(tx: Transaction, reopened: Job, *, actor: str, now: int) -> None:
    """Whoever went on without a job, or was told that it ended badly, waits for it again once a person restarts it."""
    for place, waived in tx.all("dependants_of_job", needs=reopened.seq):
        waiting = read(tx, place)
        if waived and waiting.state not in (JobState.RUNNING, JobState.COMPLETED):
            tx.run("claim_dependency", job=place, needs=reopened.seq)
            tx.run("raise_unmet", job=place)
            waiting = read(tx, place)
        if waiting.unmet:
            _wait_for_it(tx, waiting, actor, now)


def _wait_for_it(tx: Transaction, waiting: Job, actor: str, now: int) -> None:
    if waiting.state in _WAITS:
        block_again(tx, waiting, actor=actor, now=now)
    elif waiting.state is JobState.BLOCKED and waiting.reason in ("dependency_failed", "tool_missing"):
        # A missing tool is met again when the dependencies are there; till then its return must not release the job.
        dependency = _bad_need(tx, waiting)
        sentence = f"dependency {dependency} ended badly" if dependency else None
        _note(tx, waiting, "dependency_failed" if dependency else "waiting_for_dependencies", sentence, now)


def block_again(tx: Transaction, job: Job, *, actor: str, now: int) -> Job:
    """A job that would go on waits again for a dependency that was started again; any other stays as it is."""
    if job.state not in _WAITS or not job.unmet:
        return job
    return _step(tx, job, events.Block("dependency_requeued"), actor, now)
