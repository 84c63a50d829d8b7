"""The active-time limit of a job: used up it blocks, and whoever lets the job go on gives it the whole limit again."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import events
from perenne.core.states import JobState

S = JobState
LIMIT_MS = 30_000


def run_for(room: Any, job_id: str, active_ms: int, **how: Any) -> Any:
    room.bring(job_id, S.RUNNING)
    ended = events.Ended(
        answer=events.Stopped("limit" if how else "suspend"),
        published=events.Published.absent(),
        active_ms=active_ms,
        **how,
    )
    return room.ledger.end(room.token(job_id), ended, now=room.now, luck=0.0, actor="a")[0]


def left_ms(room: Any, job_id: str) -> int:
    job = room.job(job_id)
    return job.active_limit_ms - job.active_ms


def test_active_time_adds_up_over_attempts(room: Any) -> None:
    """What each attempt used is taken from what the next one may use."""
    job_id = room.submit(active_limit_ms=LIMIT_MS).job_id
    run_for(room, job_id, 10_000)
    run_for(room, job_id, 15_000)
    assert left_ms(room, job_id) == 5_000
    assert [attempt.active_ms for attempt in room.reader.attempts(job_id)] == [10_000, 15_000]


def test_a_used_up_limit_blocks(room: Any) -> None:
    """E-S2 line 6: the job ends its attempt BLOCKED with the reason, and is not claimed."""
    job_id = room.submit(active_limit_ms=LIMIT_MS).job_id
    job = run_for(room, job_id, LIMIT_MS, limit_used=True)
    assert (job.state, job.reason, job.diagnostic) == (S.BLOCKED, "active_time_limit", "active_time_limit")
    assert room.claim() is None


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_release_gives_the_limit_again_and_not_more(room: Any, times: int) -> None:
    """However often a person releases the job, it may use its limit each time, not twice or four times as much."""
    job_id = room.submit(active_limit_ms=LIMIT_MS, max_attempts=10).job_id
    for _ in range(times):
        run_for(room, job_id, LIMIT_MS, limit_used=True)
        room.tell(job_id, events.Release("go on"))
        assert left_ms(room, job_id) == LIMIT_MS
    assert sum(attempt.active_ms for attempt in room.reader.attempts(job_id)) == times * LIMIT_MS


@pytest.mark.parametrize(
    ("end", "event"),
    [
        (events.GaveUp("never"), events.Requeue("once more")),
        (events.Doubted("who knows"), events.Resolve(S.QUEUED, "looked at it")),
    ],
)
def test_a_new_start_gives_the_limit_again(room: Any, end: events.Answer, event: events.Event) -> None:
    """A job that a person requeues or resolves may use its whole limit again; one that goes on by itself may not."""
    job_id = room.submit(active_limit_ms=LIMIT_MS).job_id
    run_for(room, job_id, 20_000)
    room.bring(job_id, S.RUNNING)
    room.end(room.token(job_id), end)
    assert left_ms(room, job_id) < 10_000
    room.tell(job_id, event)
    assert left_ms(room, job_id) == LIMIT_MS


def test_a_pause_gives_no_time(room: Any) -> None:
    """Pause and resume change nothing about the time that is left."""
    job_id = room.submit(active_limit_ms=LIMIT_MS).job_id
    run_for(room, job_id, 20_000)
    room.tell(job_id, events.Pause())
    room.tell(job_id, events.Resume())
    assert left_ms(room, job_id) == 10_000
