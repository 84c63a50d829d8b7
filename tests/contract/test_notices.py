"""E-S4: one notice an end and a listener, written by the transaction that ends the job, kept until acknowledged."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import OnDependency
from perenne.core.states import JobState

S = JobState
ENDS = [S.COMPLETED, S.FAILED, S.CANCELLED, S.DEAD]


def told(room: Any, listener: str = "a") -> list[tuple[str, str]]:
    return [(notice.job_id, str(notice.state)) for notice in room.notices.pending(listener, 10_000)]


@pytest.mark.parametrize("state", list(JobState))
def test_an_end_leaves_one_notice(room: Any, state: S) -> None:
    """Each end leaves one notice; no other state does, however often it is entered."""
    room.notices.register("a", now=room.now)
    job_id = room.in_state(state)
    assert told(room) == ([(job_id, str(state))] if state in ENDS else [])


def test_no_pause_suspend_quota_or_retry_is_an_end(room: Any) -> None:
    """A job that goes through every kind of rest leaves one notice, at its end."""
    room.notices.register("a", now=room.now)
    token = room.running()
    for answer in (events.Stopped("suspend"), events.Stopped("quota"), events.Snoozed(1), room.ERROR):
        room.end(room.token(token.job_id), answer)
        if room.state(token.job_id) is S.PAUSED_QUOTA:
            room.tell(token.job_id, events.Resume())
        room.tell(token.job_id, events.Pause())
        room.tell(token.job_id, events.Resume())
        room.later(60)
        assert told(room) == []
        room.bring(token.job_id, S.RUNNING)
    room.end(room.token(token.job_id))
    assert told(room) == [(token.job_id, "COMPLETED")]


def test_every_listener_has_its_own_notice(room: Any) -> None:
    """Two listeners get a notice each, acknowledge it apart, and hear of nothing before they came."""
    room.in_state(S.COMPLETED)
    room.notices.register("a", now=room.now)
    room.notices.register("b", now=room.now)
    room.notices.register("a", now=room.now)
    job_id = room.in_state(S.FAILED)
    assert told(room, "a") == told(room, "b") == [(job_id, "FAILED")]
    (notice,) = room.notices.pending("a", 5)
    room.notices.acknowledge(notice)
    room.notices.acknowledge(notice)
    assert (told(room, "a"), told(room, "b")) == ([], [(job_id, "FAILED")])
    assert told(room, "nobody") == []


def test_a_notice_is_delivered_under_one_id_until_acknowledged(room: Any) -> None:
    """A listener that died before it acknowledged gets the same notice again, also from another process."""
    room.notices.register("a", now=room.now)
    job_id = room.in_state(S.DEAD)
    (first,) = room.notices.pending("a", 5)
    room.driver.close()
    room.reopen()
    (again,) = room.notices.pending("a", 5)
    assert first == again
    assert (again.job_id, again.state, again.at) == (job_id, S.DEAD, room.now)


def test_each_end_of_a_job_has_a_notice_of_its_own(room: Any) -> None:
    """A job that a person starts again ends again, and each end is told under another id, oldest first."""
    room.notices.register("a", now=room.now)
    job_id = room.in_state(S.FAILED)
    room.later(1)
    room.tell(job_id, events.Requeue("once more"))
    room.bring(job_id, S.COMPLETED)
    notices = room.notices.pending("a", 5)
    assert [str(notice.state) for notice in notices] == ["FAILED", "COMPLETED"]
    assert len({notice.id for notice in notices}) == 2
    assert room.notices.pending("a", 1) == notices[:1]


def test_ends_that_follow_from_another_are_told_too(room: Any) -> None:
    """A job failed by its dependency, at its end or at submit, leaves a notice like any other."""
    room.notices.register("a", now=room.now)
    need = room.submit(kind="test.need").job_id
    failed = room.submit(dependencies=(need,), on_dependency=OnDependency.FAIL).job_id
    room.bring(need, S.FAILED)
    late = room.submit(dependencies=(need,), on_dependency=OnDependency.FAIL).job_id
    assert sorted(told(room)) == sorted([(need, "FAILED"), (failed, "FAILED"), (late, "FAILED")])


def test_a_refused_end_leaves_no_notice(room: Any) -> None:
    """A late report ends nothing and tells nobody."""
    room.notices.register("a", now=room.now)
    token = room.running()
    room.end(token)
    with pytest.raises(Exception, match="lost its right"):
        room.end(token, events.GaveUp("never"))
    assert told(room) == [(token.job_id, "COMPLETED")]
