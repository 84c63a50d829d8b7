"""A join: a job with the policy `continue`, which waits until all that it depends on has ended, in whatever way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import OnDependency
from perenne.core.states import FINAL, JobState

S = JobState
CONTINUE = OnDependency.CONTINUE
BAD = sorted(FINAL - {S.COMPLETED})


def members(room: Any, count: int) -> list[str]:
    return [room.submit(kind=f"test.member{number}").job_id for number in range(count)]


def join_of(room: Any, needs: Sequence[str], **fields: Any) -> str:
    job_id: str = room.submit(dependencies=tuple(needs), on_dependency=CONTINUE, **fields).job_id
    return job_id


def of(room: Any, job_id: str) -> tuple[str, str, int]:
    job = room.job(job_id)
    return str(job.state), job.reason, job.unmet


def releases(room: Any, job_id: str) -> int:
    return int(room.verbs(job_id).count("release"))


@pytest.mark.parametrize("end", BAD)
def test_a_join_goes_on_when_its_last_member_ended(room: Any, end: S) -> None:
    """Whatever way the members end, the join waits for the last of them, and is then released once."""
    first, second, third = members(room, 3)
    join = join_of(room, (first, second, third))
    room.bring(first, end)
    assert of(room, join) == ("BLOCKED", "waiting_for_dependencies", 2)
    room.bring(second, S.COMPLETED)
    room.bring(third, end)
    assert of(room, join) == ("QUEUED", "dependencies_ended", 0)
    assert releases(room, join) == 1


@pytest.mark.parametrize("end", BAD)
def test_members_that_had_ended_before_are_not_waited_for(room: Any, end: S) -> None:
    """A join over members of which some, or all, ended badly before it came waits for the others alone."""
    first, second = members(room, 2)
    room.bring(first, end)
    join = join_of(room, (first, second))
    assert of(room, join) == ("BLOCKED", "waiting_for_dependencies", 1)
    room.bring(second, end)
    assert of(room, join) == ("QUEUED", "dependencies_ended", 0)
    assert room.state(join_of(room, (first, second))) is S.QUEUED


@pytest.mark.parametrize("end", BAD)
def test_a_join_waits_again_for_a_member_that_is_started_again(room: Any, end: S) -> None:
    """Until it runs, a member that a person requeues is waited for again, and counts once."""
    first, second = members(room, 2)
    join = join_of(room, (first, second))
    room.bring(first, end)
    room.tell(first, events.Requeue("once more"))
    assert of(room, join) == ("BLOCKED", "waiting_for_dependencies", 2)
    room.bring(second, S.COMPLETED)
    assert of(room, join)[0] == "BLOCKED"
    room.bring(first, end)
    assert of(room, join) == ("QUEUED", "dependencies_ended", 0)
    room.tell(first, events.Requeue("and again"))
    assert of(room, join) == ("BLOCKED", "dependency_requeued", 1)
    room.bring(first, S.COMPLETED)
    assert of(room, join) == ("QUEUED", "dependencies_ended", 0)


def test_a_join_that_runs_is_left_alone(room: Any) -> None:
    """Once it runs, a member that starts again and ends again changes nothing about it."""
    (first,) = members(room, 1)
    room.tell(first, events.Cancel())
    join = join_of(room, (first,))
    room.bring(join, S.RUNNING)
    room.tell(first, events.Requeue("too late"))
    before = room.job(join)
    room.bring(first, S.FAILED)
    assert room.job(join) == before


def test_a_paused_join_stays_paused(room: Any) -> None:
    """Its members end meanwhile; resumed, it is due at once, and a cancelled one stays where it is."""
    first, second = members(room, 2)
    paused, cancelled = join_of(room, (first, second)), join_of(room, (first, second))
    room.tell(paused, events.Pause())
    room.tell(cancelled, events.Cancel())
    room.tell(first, events.Cancel())
    room.bring(second, S.DEAD)
    assert of(room, paused) == ("PAUSED", "pause_requested", 0)
    assert room.state(cancelled) is S.CANCELLED
    room.tell(paused, events.Resume())
    assert room.state(paused) is S.QUEUED
    assert releases(room, paused) == 0


def test_a_released_join_is_not_released_again(room: Any) -> None:
    """A person goes on without the members; each of their ends then changes nothing."""
    first, second = members(room, 2)
    join = join_of(room, (first, second))
    room.tell(join, events.Release("without them"))
    before = room.job(join)
    room.bring(first, S.FAILED)
    room.bring(second, S.COMPLETED)
    assert room.job(join) == before
    assert releases(room, join) == 1


def test_a_failed_chain_reaches_its_join_in_one_transaction(room: Any) -> None:
    """A member that fails since its own dependency ended badly is an end like any other: all of it is one change."""
    (first,) = members(room, 1)
    second = room.submit(dependencies=(first,), on_dependency=OnDependency.FAIL).job_id
    join = join_of(room, (first, second))
    room.tell(first, events.Cancel())
    assert of(room, second)[:2] == ("FAILED", "dependency_failed")
    assert of(room, join) == ("QUEUED", "dependencies_ended", 0)
    assert releases(room, join) == 1
