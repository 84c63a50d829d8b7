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
from perenne.errors import QueueFull, StaleToken
from perenne.store import rows
from perenne.store.driver import Transaction

# Whom a person lets go on gets its active time anew; what it used before stays in its attempts.
_GIVES_TIME = frozenset({"release", "requeue", "resolve"})
_GOES_ON = frozenset({JobState.QUEUED, JobState.RETRY_WAIT, JobState.BLOCKED})


def move(tx: Transaction, job: Job, change: Change, *, actor: str, now: int) -> list[Job]:
    """Carry out a change of a job that is not running; the job as it stands afterwards, then whoever ended with it.

    Raises: QueueFull: a person starts a finished job again, but its queue is full; nothing is written.
    """
    if change.verb == "requeue":
        take_place(tx, job.queue)
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


def take_place(tx: Transaction, queue: str) -> None:
    """One more unfinished job in the queue.

    Raises: QueueFull.
    """
    if not tx.run("take_place", name=queue):
        row = tx.one("read_queue", name=queue)
        raise queue_full(queue, row[1] if row else 0)


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
    if job.state is not JobState.BLOCKED:
        return [job]
    for dependency, state, waived in tx.all("needs_of_job", job=job.seq):
        if state in FINAL and state != JobState.COMPLETED and not waived:
            settled = _meet_bad_end(tx, job, dependency, actor, now)
            return [settled, *_free_dependants(tx, settled, actor, now)]
    return [job]


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
        spent=_spent(job, change.verb),
        failures=0 if again else job.failures,
        interruptions=0 if again else job.interruptions,
        unmet=0 if change.verb == "release" else job.unmet,
        cancel_asked=0 if change.to not in FINAL else job.cancel_asked,
        active_ms=0 if change.verb in _GIVES_TIME else job.active_ms,
        diagnostic=job.diagnostic if keeps else change.diagnostic,
        finished_at=now if change.to in FINAL else None,
        now=now,
    )
    assert row is not None, "the row changed inside our own transaction"
    if change.verb == "release" and job.unmet:
        tx.run("waive_dependencies", job=job.seq)
    return rows.job(row)


def _spent(job: Job, verb: str) -> int:
    """A person who lets a job go on gives it at least one attempt."""
    if verb in ("requeue", "resolve"):
        return 0
    return min(job.spent, job.max_attempts - 1) if verb in ("release", "resume") else job.spent


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
    if not waiting.unmet:
        _step(tx, waiting, events.Release("dependencies_completed"), actor, now)
    return None


def _meet_bad_end(tx: Transaction, waiting: Job, dependency: str, actor: str, now: int) -> Job:
    if waiting.on_dependency is OnDependency.FAIL:
        return _step(tx, waiting, events.FailDependency(dependency), actor, now)
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
        if waived and not waiting.is_final and waiting.state is not JobState.RUNNING:
            tx.run("claim_dependency", job=place, needs=reopened.seq)
            tx.run("raise_unmet", job=place)
            waiting = read(tx, place)
        if waiting.state in (JobState.QUEUED, JobState.RETRY_WAIT) and waiting.unmet:
            _step(tx, waiting, events.Block("dependency_requeued"), actor, now)
        elif waiting.state is JobState.BLOCKED and waiting.reason == "dependency_failed":
            _note(tx, waiting, "waiting_for_dependencies", None, now)
