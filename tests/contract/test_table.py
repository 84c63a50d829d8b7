"""The whole table walked through the ledger on a real database, against a list written by hand.

Each line: from where, which verb, to where, whether an attempt ends and counts, and how to bring it about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from perenne.core import events
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import TRANSITIONS, JobState

S = JobState
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "DEAD"}


class Walk(NamedTuple):
    """One allowed move, and what stands in the attempt that it ends: outcome, whether it counts."""

    source: str
    verb: str
    to: str
    outcome: str | None
    spent: bool | None
    prepare: Callable[[Any], str]  # brings a job there, answers its id
    act: Callable[[Any, str], Any]


def at(state: str) -> Callable[[Any], str]:
    return lambda room: room.in_state(S(state))


def paused(state: str) -> Callable[[Any], str]:
    def prepare(room: Any) -> str:
        job_id = room.in_state(S(state))
        room.tell(job_id, events.Pause())
        return job_id

    return prepare


def asked(event: events.Event) -> Callable[[Any], str]:
    def prepare(room: Any) -> str:
        job_id = room.in_state(S.RUNNING)
        room.tell(job_id, event)
        return job_id

    return prepare


def last_attempt(room: Any) -> str:
    return room.in_state(S.RUNNING, max_attempts=1)


def with_reopened_need(state: str) -> Callable[[Any], str]:
    """A job that went on without a dependency, which a person then started again."""

    def prepare(room: Any) -> str:
        need = room.submit(kind="test.need").job_id
        job_id = room.submit(dependencies=(need,)).job_id
        room.bring(need, S.FAILED)
        room.tell(job_id, events.Release("go on without it"))
        room.bring(job_id, S(state))
        room.tell(need, events.Requeue("once more"))
        return job_id

    return prepare


def told(event: events.Event) -> Callable[[Any, str], Any]:
    return lambda room, job_id: room.tell(job_id, event)


def ended(answer: events.Answer, **how: Any) -> Callable[[Any, str], Any]:
    return lambda room, job_id: room.end(room.token(job_id), answer, **how)


def settled(published: Published | None = None) -> Callable[[Any, str], Any]:
    return lambda room, job_id: room.settle(room.token(job_id), published)


def claimed(room: Any, job_id: str) -> None:
    room.later(60)
    claim = room.claim()
    assert claim is not None
    assert claim.job.id == job_id


def resolved(to: str) -> Callable[[Any, str], Any]:
    return told(events.Resolve(S(to), "looked at it"))


RELEASE, CANCEL, PAUSE, RESUME = events.Release("go on"), events.Cancel("no"), events.Pause(), events.Resume()
REQUEUE, BLOCK, REJECT = events.Requeue("once more"), events.Block("tool_missing"), events.Reject("900 GiB")
QUOTA, FAIL = events.LackBudget("3 tokens"), events.FailDependency("01998d3b-0000-7000-8000-000000000001")
ERROR = events.Raised("boom", True, Backoff(base_s=10.0, cap_s=10.0))
PERMANENT = events.Raised("boom", False, ERROR.backoff)
COHERENT, BROKEN = Published.coherent(b"7"), Published.incoherent("other bytes")
RUN = at("RUNNING")

WALKS = [
    Walk("BLOCKED", "release", "QUEUED", None, None, at("BLOCKED"), told(RELEASE)),
    Walk("BLOCKED", "fail", "FAILED", None, None, at("BLOCKED"), told(FAIL)),
    Walk("QUEUED", "block", "BLOCKED", None, None, at("QUEUED"), told(BLOCK)),
    Walk("RETRY_WAIT", "block", "BLOCKED", None, None, at("RETRY_WAIT"), told(BLOCK)),
    Walk("QUEUED", "reject", "FAILED", None, None, at("QUEUED"), told(REJECT)),
    Walk("RETRY_WAIT", "reject", "FAILED", None, None, at("RETRY_WAIT"), told(REJECT)),
    Walk("QUEUED", "quota", "PAUSED_QUOTA", None, None, at("QUEUED"), told(QUOTA)),
    Walk("RETRY_WAIT", "quota", "PAUSED_QUOTA", None, None, at("RETRY_WAIT"), told(QUOTA)),
    Walk("QUEUED", "claim", "RUNNING", None, None, at("QUEUED"), claimed),
    Walk("RETRY_WAIT", "claim", "RUNNING", None, None, at("RETRY_WAIT"), claimed),
    Walk("RUNNING", "complete", "COMPLETED", "completed", True, RUN, ended(events.Returned(b"1"))),
    Walk("RUNNING", "complete", "COMPLETED", "completed", True, RUN, ended(ERROR, published=COHERENT)),
    Walk("RUNNING", "complete", "COMPLETED", "completed", False, RUN, ended(events.NotCalled(), published=COHERENT)),
    Walk("RUNNING", "complete", "COMPLETED", "completed", True, RUN, settled(COHERENT)),
    Walk("RUNNING", "retry", "RETRY_WAIT", "failed", True, RUN, ended(ERROR)),
    Walk("RUNNING", "snooze", "RETRY_WAIT", "snoozed", False, RUN, ended(events.Snoozed(9))),
    Walk("RUNNING", "block", "BLOCKED", "blocked", False, RUN, ended(events.Missing("no tool"))),
    Walk("RUNNING", "block", "BLOCKED", "blocked", True, RUN, ended(events.Stopped("limit"), limit_used=True)),
    Walk("RUNNING", "fail", "FAILED", "failed", True, RUN, ended(PERMANENT)),
    Walk("RUNNING", "fail", "FAILED", "failed", True, RUN, ended(events.GaveUp("never"))),
    Walk("RUNNING", "fail", "FAILED", "failed", True, last_attempt, ended(ERROR)),
    Walk("RUNNING", "bury", "DEAD", "failed", True, RUN, ended(events.Returned(), overrun="12 of 10")),
    Walk("RUNNING", "bury", "DEAD", "interrupted", True, last_attempt, settled()),
    Walk("RUNNING", "requeue_interrupted", "QUEUED", "interrupted", True, RUN, settled()),
    Walk("RUNNING", "suspend", "QUEUED", "suspended", False, RUN, ended(events.Stopped("suspend"))),
    Walk("RUNNING", "pause", "PAUSED", "paused", False, asked(PAUSE), ended(events.Stopped("pause"))),
    Walk("RUNNING", "pause", "PAUSED", "interrupted", True, asked(PAUSE), settled()),
    Walk("RUNNING", "quota", "PAUSED_QUOTA", "quota", False, RUN, ended(events.Stopped("quota"))),
    Walk("RUNNING", "doubt", "RECOVERY_REQUIRED", "doubted", True, RUN, ended(events.Doubted("who knows"))),
    Walk("RUNNING", "doubt", "RECOVERY_REQUIRED", "doubted", True, RUN, ended(ERROR, published=BROKEN)),
    Walk("RUNNING", "doubt", "RECOVERY_REQUIRED", "doubted", True, asked(CANCEL), settled(BROKEN)),
    Walk("RUNNING", "cancel", "CANCELLED", "cancelled", True, asked(CANCEL), ended(events.Returned(b"1"))),
    Walk("RUNNING", "cancel", "CANCELLED", "cancelled", True, asked(CANCEL), settled()),
    Walk("QUEUED", "cancel", "CANCELLED", None, None, at("QUEUED"), told(CANCEL)),
    Walk("RETRY_WAIT", "cancel", "CANCELLED", None, None, at("RETRY_WAIT"), told(CANCEL)),
    Walk("BLOCKED", "cancel", "CANCELLED", None, None, at("BLOCKED"), told(CANCEL)),
    Walk("PAUSED", "cancel", "CANCELLED", None, None, at("PAUSED"), told(CANCEL)),
    Walk("PAUSED_QUOTA", "cancel", "CANCELLED", None, None, at("PAUSED_QUOTA"), told(CANCEL)),
    Walk("QUEUED", "pause", "PAUSED", None, None, at("QUEUED"), told(PAUSE)),
    Walk("RETRY_WAIT", "pause", "PAUSED", None, None, at("RETRY_WAIT"), told(PAUSE)),
    Walk("BLOCKED", "pause", "PAUSED", None, None, at("BLOCKED"), told(PAUSE)),
    Walk("PAUSED", "resume", "QUEUED", None, None, at("PAUSED"), told(RESUME)),
    Walk("PAUSED", "resume", "RETRY_WAIT", None, None, paused("RETRY_WAIT"), told(RESUME)),
    Walk("PAUSED", "resume", "BLOCKED", None, None, paused("BLOCKED"), told(RESUME)),
    Walk("PAUSED_QUOTA", "resume", "QUEUED", None, None, at("PAUSED_QUOTA"), told(RESUME)),
    Walk("PAUSED_QUOTA", "resume", "BLOCKED", None, None, with_reopened_need("PAUSED_QUOTA"), told(RESUME)),
    Walk("RECOVERY_REQUIRED", "resolve", "COMPLETED", None, None, at("RECOVERY_REQUIRED"), resolved("COMPLETED")),
    Walk("RECOVERY_REQUIRED", "resolve", "QUEUED", None, None, at("RECOVERY_REQUIRED"), resolved("QUEUED")),
    Walk("RECOVERY_REQUIRED", "resolve", "FAILED", None, None, at("RECOVERY_REQUIRED"), resolved("FAILED")),
    Walk("FAILED", "requeue", "QUEUED", None, None, at("FAILED"), told(REQUEUE)),
    Walk("FAILED", "requeue", "BLOCKED", None, None, with_reopened_need("FAILED"), told(REQUEUE)),
    Walk("CANCELLED", "requeue", "QUEUED", None, None, at("CANCELLED"), told(REQUEUE)),
    Walk("CANCELLED", "requeue", "BLOCKED", None, None, with_reopened_need("CANCELLED"), told(REQUEUE)),
    Walk("DEAD", "requeue", "QUEUED", None, None, at("DEAD"), told(REQUEUE)),
    Walk("DEAD", "requeue", "BLOCKED", None, None, with_reopened_need("DEAD"), told(REQUEUE)),
]


def test_the_walk_misses_no_move() -> None:
    """Every move of the table but `submit` is walked, and nothing else is."""
    in_code = {(str(source), verb, str(to)) for source, verb, to in TRANSITIONS if source}
    assert {(walk.source, walk.verb, walk.to) for walk in WALKS} == in_code


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: f"{walk.source}-{walk.verb}-{walk.to}")
def test_a_move_leaves_everything_it_should(room: Any, walk: Walk) -> None:
    """The row, its attempt, the history, the count of the queue and the notice all say the same afterwards."""
    room.notices.register("watcher", now=room.now)
    job_id = walk.prepare(room)
    before, counted, told_of = room.job(job_id), room.unfinished(), len(room.notices.pending("watcher", 99))
    assert before.state == walk.source
    room.later(1)
    walk.act(room, job_id)
    after = room.job(job_id)
    assert (after.state, after.updated_at) == (walk.to, room.now)
    assert after.revision > before.revision
    assert after.finished_at == (room.now if walk.to in FINAL else None)
    check_attempt(room, walk, before, after)
    line = room.reader.history(job_id=job_id)[-1]
    assert (line.verb, line.from_state, line.to_state) == (walk.verb, walk.source, walk.to)
    assert (line.reason, line.at, line.subject) == (after.reason, room.now, f"job:{job_id}")
    assert line.actor
    assert room.unfinished() - counted == (walk.source in FINAL) - (walk.to in FINAL)
    assert len(room.notices.pending("watcher", 99)) - told_of == (walk.to in FINAL)


def check_attempt(room: Any, walk: Walk, before: Any, after: Any) -> None:
    attempts = room.reader.attempts(after.id)
    assert (after.attempt is not None) == (walk.to == "RUNNING")
    if walk.verb == "claim":
        assert (after.number, after.spent) == (before.number + 1, before.spent + 1)
        assert (attempts[-1].id, attempts[-1].number, attempts[-1].ended_at) == (after.attempt, after.number, None)
    elif walk.outcome is None:
        assert after.number == before.number
        assert len(attempts) == before.number
    else:
        last = attempts[-1]
        assert (last.id, last.outcome, last.spent) == (before.attempt, walk.outcome, walk.spent)
        assert (last.ended_at, last.reason) == (room.now, after.reason)
        assert after.spent == before.spent - (not walk.spent)
        assert after.failures - before.failures == (walk.outcome == "failed")
        assert after.interruptions - before.interruptions == (walk.outcome == "interrupted")
    assert not after.pause_asked


@pytest.mark.parametrize("to", ["QUEUED", "BLOCKED"])
def test_a_submit_leaves_everything_it_should(room: Any, to: str) -> None:
    """A new job stands in its row, in the history and in the count of its queue."""
    needs = () if to == "QUEUED" else (room.submit(kind="test.need").job_id,)
    counted = room.unfinished()
    receipt = room.submit(dependencies=needs, priority=3, key="k")
    job = room.job(receipt.job_id)
    assert (receipt.state, receipt.reused, receipt.durability) == (to, False, "durable")
    assert (job.state, job.spent, job.number, job.unmet, job.key) == (to, 0, 0, len(needs), "k")
    (line,) = room.reader.history(job_id=job.id)
    assert (line.verb, line.from_state, line.to_state, line.reason) == ("submit", None, to, job.reason)
    assert (line.at, line.actor, line.number) == (room.now, "person:test", None)
    assert room.unfinished() == counted + 1
