"""P9: every change of state is in the history with its reason, time and actor, from creation to the end."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import OnDependency
from perenne.core.publication import Published
from perenne.core.states import TRANSITIONS, JobState

S = JobState


def replayed(room: Any) -> dict[str, str | None]:
    """The state of each job as its lines tell it; each line must begin where the last one ended."""
    states: dict[str, str | None] = {}
    for line in room.reader.history(limit=100_000):
        if line.job_id is not None:
            assert line.from_state == states.get(line.job_id), line
            states[line.job_id] = line.to_state
    return states


def busy(room: Any) -> None:
    """A life of everything: retries, controls, dependencies, recovery, people."""
    need = room.submit(kind="test.need").job_id
    room.submit(dependencies=(need,), on_dependency=OnDependency.FAIL)
    kept = room.submit(dependencies=(need,)).job_id
    room.bring(need, S.RETRY_WAIT)
    room.later(60)
    room.bring(need, S.DEAD)
    room.tell(kept, events.Release("go on"))
    room.tell(need, events.Requeue("once more"))
    room.bring(need, S.RUNNING)
    room.tell(need, events.Cancel("not needed"))
    room.settle(room.token(need))
    first = room.running()
    room.tell(first.job_id, events.Pause())
    room.tell(first.job_id, events.Resume())
    room.settle(first)
    room.bring(first.job_id, S.RECOVERY_REQUIRED)
    room.tell(first.job_id, events.Resolve(S.QUEUED, "looked at it"))
    room.tell(first.job_id, events.Pause())
    room.tell(first.job_id, events.Resume())
    room.bring(first.job_id, S.COMPLETED)
    for state in JobState:
        room.in_state(state, kind=f"test.{state.lower()}")


def test_replaying_the_history_gives_the_current_states(room: Any) -> None:
    """Read from the first line to the last, the history tells the state of every job, without a gap."""
    busy(room)
    assert replayed(room) == {job.id: str(job.state) for job in room.reader.jobs(limit=1000)}


def test_every_line_is_a_move_of_the_table_or_a_wish(room: Any) -> None:
    """No line tells a move that the table does not have; a wish leaves the state as it is."""
    busy(room)
    for line in room.reader.history(limit=100_000):
        if line.verb.startswith("ask_"):
            assert line.from_state == line.to_state == "RUNNING"
        else:
            source = S(line.from_state) if line.from_state else None
            assert (source, line.verb, S(line.to_state)) in TRANSITIONS


def test_every_line_says_why_when_and_who(room: Any) -> None:
    """Reason, time and actor stand in each line, and the numbers of lines only grow."""
    busy(room)
    lines = room.reader.history(limit=100_000)
    assert all(line.reason and line.actor and line.at for line in lines)
    assert [line.seq for line in lines] == sorted({line.seq for line in lines})
    assert [line.at for line in lines] == sorted(line.at for line in lines)


def test_the_actor_is_whoever_did_it(room: Any) -> None:
    """A person's word, a worker's claim and end, and what follows from them are told apart."""
    need = room.submit(kind="test.need").job_id
    job_id = room.submit(dependencies=(need,)).job_id
    room.bring(need, S.COMPLETED)
    assert [line.actor for line in room.reader.history(job_id=need)] == [
        "person:test",
        f"worker:{room.OWNER}",
        f"worker:{room.OWNER}",
    ]
    assert [line.actor for line in room.reader.history(job_id=job_id)] == ["person:test", f"worker:{room.OWNER}"]


def test_the_lines_of_an_attempt_bear_its_number(room: Any) -> None:
    """Claim, wish and end of the second attempt say 2; the birth of the job says nothing."""
    token = room.running()
    room.settle(token)
    room.bring(token.job_id, S.RUNNING)
    room.tell(token.job_id, events.Pause())
    room.end(room.token(token.job_id), events.Stopped("pause"))
    lines = room.reader.history(job_id=token.job_id)
    assert [(line.verb, line.number) for line in lines] == [
        ("submit", None),
        ("claim", 1),
        ("requeue_interrupted", 1),
        ("claim", 2),
        ("ask_pause", 2),
        ("pause", 2),
    ]


def test_an_attempt_is_one_row_from_claim_to_end(room: Any) -> None:
    """Each run of a job is a row: who, when, how it ended, why, and whether it counted."""
    token = room.running()
    started = room.now
    room.later(3)
    room.end(token, events.Raised("boom", True, room.ERROR.backoff))
    (attempt,) = room.reader.attempts(token.job_id)
    assert (attempt.id, attempt.job_id, attempt.number, attempt.epoch) == (token.attempt, token.job_id, 1, 1)
    assert (attempt.owner, attempt.claimed_at, attempt.ended_at) == (room.OWNER, started, room.now)
    assert (attempt.outcome, attempt.reason, attempt.spent, attempt.diagnostic) == ("failed", "error", True, "boom")
    assert (attempt.active_ms, room.job(token.job_id).active_ms) == (5, 5)


def test_failures_and_interruptions_are_counted_apart(room: Any) -> None:
    """E-S3: both spend attempts, each has its own count, and a requeue restarts them but never the number."""
    token = room.running(max_attempts=3)
    room.settle(token)
    room.bring(token.job_id, S.RETRY_WAIT)
    room.later(60)
    room.bring(token.job_id, S.RUNNING)
    room.settle(room.token(token.job_id))
    job = room.job(token.job_id)
    assert (job.state, job.spent, job.number, job.failures, job.interruptions) == (S.DEAD, 3, 3, 1, 2)
    room.tell(job.id, events.Requeue("once more"))
    job = room.job(token.job_id)
    assert (job.spent, job.number, job.failures, job.interruptions) == (0, 3, 0, 0)
    room.bring(job.id, S.RUNNING)
    assert room.token(job.id).number == 4


@pytest.mark.parametrize("to", [S.COMPLETED, S.QUEUED, S.FAILED])
def test_a_resolved_job_keeps_its_counts(room: Any, to: S) -> None:
    """A person's word on a job in doubt does not forget its attempts; one to go on has at least one attempt left."""
    token = room.running(max_attempts=1)
    room.settle(token, Published.incoherent("other bytes"))
    room.tell(token.job_id, events.Resolve(to, "looked at it"))
    job = room.job(token.job_id)
    assert (job.state, job.spent, job.number) == (to, 0 if to is S.QUEUED else 1, 1)
    if to is S.QUEUED:
        assert room.claim().job.id == job.id


@pytest.mark.parametrize(
    ("answer", "how"), [(events.Stopped("limit"), {"limit_used": True}), (events.Stopped("pause"), {})]
)
def test_who_is_let_go_on_has_an_attempt_left(room: Any, answer: events.Answer, how: dict[str, bool]) -> None:
    """A job that a person releases or resumes on its last attempt runs once more, and is not stuck in the queue."""
    token = room.running(max_attempts=1)
    if how:
        room.end(token, answer, **how)
        room.tell(token.job_id, events.Release("go on"))
    else:
        room.tell(token.job_id, events.Pause())
        room.settle(token)
        assert room.job(token.job_id).spent == 1
        room.tell(token.job_id, events.Resume())
    assert room.claim().job.id == token.job_id


def test_history_is_read_in_pages(room: Any) -> None:
    """After a line, at most so many, of one job or of everything; the newest number is the revision."""
    busy(room)
    everything = room.reader.history(limit=100_000)
    assert room.reader.revision() == everything[-1].seq
    paged, after = [], 0
    while page := room.reader.history(after=after, limit=7):
        paged += page
        after = page[-1].seq
    assert paged == everything
    job_id = everything[0].job_id
    own = [line for line in everything if line.job_id == job_id]
    assert room.reader.history(job_id=job_id) == own
    assert room.reader.history(job_id=job_id, after=own[0].seq, limit=1) == own[1:2]
    assert room.reader.history(job_id=room.id()) == []
    assert room.reader.attempts(room.id()) == []


def test_a_new_ledger_has_no_past(room: Any) -> None:
    """A new ledger has no history and no jobs; its revision is 0."""
    assert (room.reader.revision(), room.reader.history(), room.reader.jobs()) == (0, [], [])
    assert room.reader.counts() == {}


def test_progress_is_of_the_attempt(room: Any) -> None:
    """Progress is kept while an attempt runs, stays to be read after it, and begins anew with the next."""
    token = room.running()
    before = room.job(token.job_id)
    room.later(1)
    room.ledger.progress(token, 3, 9, "a third", now=room.now)
    job = room.job(token.job_id)
    assert (job.progress_done, job.progress_total, job.progress_message) == (3, 9, "a third")
    assert (job.updated_at, job.revision) == (room.now, before.revision + 1)
    room.settle(token)
    assert room.job(token.job_id).progress_done == 3
    room.bring(token.job_id, S.RUNNING)
    job = room.job(token.job_id)
    assert (job.progress_done, job.progress_total, job.progress_message) == (0, None, None)
    assert room.verbs(token.job_id) == ["submit", "claim", "requeue_interrupted", "claim"]
