"""P7: whatever the table does not allow is refused by name, and leaves every row of every table as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import Token
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState
from perenne.errors import AlreadyFinished, InvalidInput, JobNotFound, NotAllowed, StaleToken, TooLarge

S = JobState
FINAL = (S.COMPLETED, S.FAILED, S.CANCELLED, S.DEAD)
NOBODY = "01998d3b-0000-7000-8000-ffffffffffff"

SPOKEN: dict[str, events.Event] = {
    "release": events.Release("go on"),
    "fail": events.FailDependency(NOBODY),
    "block": events.Block("tool_missing"),
    "reject": events.Reject("900 GiB"),
    "quota": events.LackBudget("3 tokens"),
    "cancel": events.Cancel("no"),
    "pause": events.Pause(),
    "resume": events.Resume(),
    "resolve to COMPLETED": events.Resolve(S.COMPLETED, "looked"),
    "resolve to QUEUED": events.Resolve(S.QUEUED, "looked"),
    "resolve to FAILED": events.Resolve(S.FAILED, "looked"),
    "resolve to DEAD": events.Resolve(S.DEAD, "looked"),
    "resolve to RUNNING": events.Resolve(S.RUNNING, "looked"),
    "requeue": events.Requeue("once more"),
}
# What the table allows, and what a running job takes as a wish; everything else is refused.
TAKEN = {
    "release": {S.BLOCKED},
    "fail": {S.BLOCKED},
    "block": {S.QUEUED, S.RETRY_WAIT},
    "reject": {S.QUEUED, S.RETRY_WAIT},
    "quota": {S.QUEUED, S.RETRY_WAIT},
    "cancel": {S.QUEUED, S.RETRY_WAIT, S.BLOCKED, S.PAUSED, S.PAUSED_QUOTA, S.RUNNING},
    "pause": {S.QUEUED, S.RETRY_WAIT, S.BLOCKED, S.RUNNING},
    "resume": {S.PAUSED, S.PAUSED_QUOTA, S.RUNNING},
    "resolve to COMPLETED": {S.RECOVERY_REQUIRED},
    "resolve to QUEUED": {S.RECOVERY_REQUIRED},
    "resolve to FAILED": {S.RECOVERY_REQUIRED},
    "resolve to DEAD": set(),
    "resolve to RUNNING": set(),
    "requeue": {S.FAILED, S.CANCELLED, S.DEAD},
}
ANSWERS: dict[str, events.Answer] = {
    "result": events.Returned(b"1"),
    "error": events.Raised("boom", True, Backoff()),
    "permanent": events.Raised("boom", False, Backoff()),
    "snooze": events.Snoozed(5),
    "give up": events.GaveUp("never"),
    "doubt": events.Doubted("who knows"),
    "missing": events.Missing("no tool"),
    "quota": events.Stopped("quota"),
    "suspend": events.Stopped("suspend"),
    "pause": events.Stopped("pause"),
}


def refused(room: Any, call: Callable[[], Any], *errors: type[Exception]) -> Exception:
    """The error of a call that must change nothing: no row, by no path."""
    before = room.house.tables()
    with pytest.raises(errors) as raised:
        call()
    assert room.house.tables() == before
    return raised.value


@pytest.mark.parametrize(
    ("verb", "state"),
    [(verb, state) for verb, taken in TAKEN.items() for state in JobState if state not in taken],
)
def test_a_refused_verb_changes_nothing(room: Any, verb: str, state: S) -> None:
    """A verb that the state does not allow names job, state and verb, and says whether it is too late."""
    job_id = room.in_state(state)
    error = refused(room, lambda: room.tell(job_id, SPOKEN[verb]), AlreadyFinished if state in FINAL else NotAllowed)
    for word in (job_id, state, verb.split()[0]):
        assert word in str(error)


@pytest.mark.parametrize("state", [state for state in JobState if state is not S.RUNNING])
def test_a_late_report_changes_nothing(room: Any, state: S) -> None:
    """P2: once a job is not RUNNING, no outcome, progress or recovery under its last token is written."""
    token = room.token(room.in_state(state))
    for answer in ANSWERS.values():
        for published in (Published.absent(), Published.coherent(b"7"), Published.incoherent("x")):
            refused(room, lambda a=answer, p=published: room.end(token, a, p, limit_used=True), StaleToken)
    for published in (Published.absent(), Published.coherent(b"7"), Published.incoherent("x")):
        refused(room, lambda p=published: room.settle(token, p), StaleToken)
    refused(room, lambda: room.ledger.progress(token, 1, 2, "half", now=room.now), StaleToken)
    refused(room, lambda: room.ledger.check(token), StaleToken)


@pytest.mark.parametrize("state", [state for state in JobState if state not in (S.QUEUED, S.RETRY_WAIT)])
def test_a_claim_takes_only_what_waits(room: Any, state: S) -> None:
    """A job that does not wait for its turn is not claimed, and looking for one writes nothing."""
    room.in_state(state)
    room.later(3600)
    before = room.house.tables()
    assert room.claim() is None
    assert room.house.tables() == before


@pytest.mark.parametrize("state", [S.QUEUED, S.RETRY_WAIT])
def test_a_claim_is_not_before_its_time(room: Any, state: S) -> None:
    """A job whose time has not come is not claimed one microsecond early; then it is."""
    job_id = room.in_state(S.RETRY_WAIT) if state is S.RETRY_WAIT else room.submit(due_at=room.now + 5_000_000).job_id
    due_at = room.job(job_id).due_at
    room.now = due_at - 1
    before = room.house.tables()
    assert room.claim() is None
    assert room.house.tables() == before
    room.now = due_at
    assert room.claim().job.id == job_id


@pytest.mark.parametrize("name", ["", "\udcff", "a\0b", "x" * 3000, NOBODY, NOBODY.upper()])
@pytest.mark.parametrize("verb", SPOKEN)
def test_a_job_that_nobody_submitted_is_not_found(room: Any, verb: str, name: str) -> None:
    """Any id that no job has is `JobNotFound`, however it is spelled."""
    room.submit()
    refused(room, lambda: room.tell(name, SPOKEN[verb]), JobNotFound)
    refused(room, lambda: room.job(name), JobNotFound)


def test_a_token_of_no_job_is_stale(room: Any) -> None:
    """A report about a job that is not here is dropped as any late one."""
    token = Token(NOBODY, "0" * 32, 1, 1)
    refused(room, lambda: room.end(token), StaleToken)
    refused(room, lambda: room.settle(token), StaleToken)
    refused(room, lambda: room.ledger.check(token), StaleToken)
    refused(room, lambda: room.ledger.progress(token, 1, 2, None, now=room.now), StaleToken)


@pytest.mark.parametrize("verb", ["release", "requeue", "resolve"])
def test_a_persons_word_needs_a_reason(room: Any, verb: str) -> None:
    """Without a written reason, or with one above 2 KiB, nothing is released, requeued or resolved."""
    state, make = {
        "release": (S.BLOCKED, events.Release),
        "requeue": (S.FAILED, events.Requeue),
        "resolve": (S.RECOVERY_REQUIRED, lambda reason: events.Resolve(S.QUEUED, reason)),
    }[verb]
    job_id = room.in_state(state)
    refused(room, lambda: room.tell(job_id, make(" ")), InvalidInput)
    refused(room, lambda: room.tell(job_id, make("x" * 2049)), TooLarge)
    room.tell(job_id, make("x" * 2048))
    assert room.reader.history(job_id=job_id)[-1].reason


@pytest.mark.parametrize("queue", ["nowhere", "", "\udcff", "a\0", "x" * 201])
def test_a_control_of_no_queue_is_refused(room: Any, queue: str) -> None:
    """Pause, resume and stop of a queue that does not exist are refused and write no line of history."""
    for verb in ("pause", "resume", "stop"):
        refused(room, lambda v=verb: room.control(v, queue), InvalidInput, TooLarge)


@pytest.mark.parametrize("bad", [("", 5), ("\udcff", 5), ("x" * 201, 5), ("q", 0), ("q", -1), ("q", 2**63)])
def test_an_impossible_queue_is_refused(room: Any, bad: tuple[str, int]) -> None:
    """A queue has a visible name of at most 200 bytes and a bound that can be counted to."""
    refused(room, lambda: room.ledger.add_queue(*bad), InvalidInput, TooLarge)
