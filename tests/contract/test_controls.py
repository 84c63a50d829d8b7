"""E-Q8: pause, stop and resume of a queue and of the workspace; pause, cancel and resume of one job."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import events
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState
from perenne.errors import InvalidInput

S = JobState
SCOPES = [None, "default"]


def controls(room: Any, scope: str | None) -> tuple[bool, bool]:
    found = room.reader.controls() if scope is None else next(q for q in room.reader.queues() if q.name == scope)
    return found.paused, found.stopped


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("verbs", "expected"),
    [
        (["pause"], (True, False)),
        (["stop"], (False, True)),
        (["pause", "stop"], (True, True)),
        (["stop", "pause"], (True, True)),
        (["pause", "resume"], (False, False)),
        (["stop", "resume"], (False, False)),
        (["pause", "stop", "resume"], (False, False)),
        (["resume"], (False, False)),
    ],
)
def test_controls_add_up_and_resume_clears_both(
    room: Any, scope: str | None, verbs: list[str], expected: tuple[bool, bool]
) -> None:
    """Pause and stop are kept beside each other until a resume; a claim respects either; a reopening keeps them."""
    job_id = room.submit().job_id
    for verb in verbs:
        room.control(verb, scope)
    room.driver.close()
    room.reopen()
    assert controls(room, scope) == expected
    claim = room.claim()
    assert (claim.job.id if claim else None) == (None if any(expected) else job_id)


@pytest.mark.parametrize("verb", ["pause", "stop"])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_closed_queue_starts_nothing_and_ends_everything(room: Any, scope: str | None, verb: str) -> None:
    """Nothing new starts behind a control, submits are taken, and what runs ends as it would."""
    token = room.running()
    room.control(verb, scope)
    waiting = room.submit().job_id
    before = room.house.tables()
    assert room.claim() is None
    assert room.house.tables() == before
    room.end(token)
    assert room.state(token.job_id) is S.COMPLETED
    room.control("resume", scope)
    assert room.claim().job.id == waiting


def test_a_queue_is_closed_alone(room: Any) -> None:
    """Another queue goes on while one is paused or stopped."""
    room.ledger.add_queue("other", 5)
    room.submit()
    free = room.submit(queue="other").job_id
    room.control("pause", "default")
    assert room.claim().job.id == free
    assert room.claim() is None


@pytest.mark.parametrize("scope", SCOPES)
def test_a_control_stands_in_history(room: Any, scope: str | None) -> None:
    """Who said it, when, and about what stands in the history of the workspace."""
    room.control("pause", scope)
    room.later(1)
    room.control("resume", scope)
    subject = "workspace" if scope is None else "queue:default"
    found = [(line.subject, line.verb, line.actor, line.job_id) for line in room.reader.history()]
    assert found == [(subject, "pause", "person:test", None), (subject, "resume", "person:test", None)]
    assert room.reader.history()[1].at == room.now


@pytest.mark.parametrize("scope", SCOPES)
def test_a_stop_reaches_what_runs(room: Any, scope: str | None) -> None:
    """Workers see a stop of the workspace or of a job's queue for that job; a pause is not passed to what runs."""
    token = room.running()
    room.control("pause", scope)
    assert not room.reader.asked()[token.attempt].stop
    room.control("stop", scope)
    assert room.reader.asked()[token.attempt].stop
    room.control("resume", scope)
    assert not room.reader.asked()[token.attempt].stop


def test_what_is_asked_of_a_running_job_is_seen(room: Any) -> None:
    """Cancel and pause wait beside each other for the next boundary, and resume takes back the pause alone."""
    token = room.running()
    steps = [
        (events.Pause(), (False, True), "ask_pause"),
        (events.Cancel(), (True, True), "ask_cancel"),
        (events.Resume(), (True, False), "ask_resume"),
    ]
    assert room.ledger.check(token) == (False, False)
    for event, asked, verb in steps:
        (job,) = room.tell(token.job_id, event)
        assert (job.state, job.cancel_asked, job.pause_asked) == (S.RUNNING, *asked)
        assert room.ledger.check(token) == asked
        assert room.verbs(token.job_id)[-1] == verb
    assert (room.reader.asked()[token.attempt].cancel, room.reader.asked()[token.attempt].pause) == (True, False)


def test_what_stands_already_is_not_asked_again(room: Any) -> None:
    """A resume of a job that runs and was never paused, and a second cancel or pause, write nothing."""
    token = room.running()
    for asked, event in (
        ((), events.Resume()),
        ((events.Pause(),), events.Pause()),
        ((events.Cancel(),), events.Cancel()),
    ):
        for first in asked:
            room.tell(token.job_id, first)
        before = room.house.tables()
        assert [job.state for job in room.tell(token.job_id, event)] == [S.RUNNING]
        assert room.house.tables() == before
    with pytest.raises(InvalidInput, match="reason"):
        room.tell(token.job_id, events.Cancel(" "))


@pytest.mark.parametrize(
    ("answer", "how", "before_pause"),
    [
        (events.Raised("boom", True, Backoff()), {}, "retry"),
        (events.Snoozed(9), {}, "snooze"),
        (events.Stopped("suspend"), {}, "suspend"),
        (events.Missing("no tool"), {}, "block"),
        (events.Stopped("limit"), {"limit_used": True}, "block"),
    ],
)
def test_a_pause_outlives_another_end(
    room: Any, answer: events.Answer, how: dict[str, bool], before_pause: str
) -> None:
    """A pause that the attempt did not meet before it ended otherwise is carried out in the same transaction."""
    token = room.running()
    room.tell(token.job_id, events.Pause())
    (job,) = room.end(token, answer, **how)
    assert (job.state, job.pause_asked) == (S.PAUSED, False)
    assert room.verbs(token.job_id)[-2:] == [before_pause, "pause"]
    assert room.claim() is None


@pytest.mark.parametrize(
    ("answer", "how", "state"),
    [
        (events.Returned(), {}, S.COMPLETED),
        (events.GaveUp("never"), {}, S.FAILED),
        (events.Returned(), {"overrun": "12 of 10"}, S.DEAD),
        (events.Doubted("who knows"), {}, S.RECOVERY_REQUIRED),
        (events.Returned(), {"published": Published.coherent()}, S.COMPLETED),
    ],
)
def test_a_pause_does_not_hold_back_an_end(room: Any, answer: events.Answer, how: dict[str, Any], state: S) -> None:
    """What ended, or waits for a person, is not paused; the wish is gone with the attempt."""
    token = room.running()
    room.tell(token.job_id, events.Pause())
    (job,) = room.end(token, answer, **how)
    assert (job.state, job.pause_asked) == (state, False)


def test_a_resume_that_comes_last_wins(room: Any) -> None:
    """A handler that met a pause which was taken back before its end was recorded goes on, and is not left PAUSED."""
    token = room.running()
    room.tell(token.job_id, events.Pause())
    room.tell(token.job_id, events.Resume())
    room.end(token, events.Stopped("pause"))
    assert room.state(token.job_id) is S.QUEUED
    assert room.claim().job.id == token.job_id


def test_a_cancel_that_came_with_a_publication_stays_visible(room: Any) -> None:
    """What was published is done; that it was to be cancelled stays in the row and in its words."""
    token = room.running()
    room.tell(token.job_id, events.Cancel("not needed"))
    (job,) = room.end(token, room.ERROR, Published.coherent(b"7"))
    assert (job.state, job.cancel_asked, job.result) == (S.COMPLETED, True, b"7")
    assert "cancel" in job.diagnostic


def test_a_paused_job_survives_reopening(room: Any) -> None:
    """E-S3: PAUSED survives a restart."""
    job_id = room.in_state(S.PAUSED)
    room.driver.close()
    room.reopen()
    assert room.state(job_id) is S.PAUSED
    assert room.claim() is None


def test_a_job_that_was_cancelled_and_started_again_is_not_cancelled_again(room: Any) -> None:
    """The wish to cancel goes with the job that it ended; a person's requeue begins without it."""
    token = room.running()
    room.tell(token.job_id, events.Cancel())
    (job,) = room.end(token, events.Returned())
    assert (job.state, job.cancel_asked) == (S.CANCELLED, True)
    room.tell(job.id, events.Requeue("once more"))
    room.bring(job.id, S.RUNNING)
    again = room.token(job.id)
    assert room.ledger.check(again) == (False, False)
    room.end(again, events.Returned())
    assert (room.state(job.id), room.job(job.id).cancel_asked) == (S.COMPLETED, False)


@pytest.mark.parametrize("state", [S.RETRY_WAIT, S.BLOCKED])
def test_a_pause_keeps_what_was_said(room: Any, state: S) -> None:
    """Why a job waits is still to be read while it is paused and after it is resumed."""
    need = room.submit(kind="test.need").job_id
    job_id = room.submit(dependencies=(need,)).job_id if state is S.BLOCKED else room.in_state(state)
    room.tell(need, events.Cancel())
    said = room.job(job_id).diagnostic
    assert said
    for event in (events.Pause(), events.Resume()):
        room.tell(job_id, event)
        assert room.job(job_id).diagnostic == said
