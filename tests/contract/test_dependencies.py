"""Who waits for whom: released or failed by the transaction that ends a dependency, waiting again when it restarts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import OnDependency
from perenne.core.states import JobState

S = JobState
BLOCK, FAIL = OnDependency.BLOCK, OnDependency.FAIL
REQUEUE, RELEASE = events.Requeue("once more"), events.Release("go on without it")


def need(room: Any, state: S = S.QUEUED) -> str:
    return room.in_state(state, kind="test.need")


def of(room: Any, job_id: str) -> tuple[str, str, int]:
    job = room.job(job_id)
    return str(job.state), job.reason, job.unmet


def lines_since(room: Any, revision: int) -> list[tuple[str, str, str | None]]:
    return [(line.job_id, line.verb, line.to_state) for line in room.reader.history(after=revision)]


def test_the_last_dependency_releases(room: Any) -> None:
    """A job goes on in the transaction that completes the last of its dependencies, not before."""
    first, second = need(room), need(room)
    job_id = room.submit(dependencies=(first, second)).job_id
    room.bring(first, S.COMPLETED)
    assert of(room, job_id) == ("BLOCKED", "waiting_for_dependencies", 1)
    room.bring(second, S.RUNNING)
    token = room.token(second)
    revision = room.reader.revision()
    room.later(5)
    settled = room.end(token)
    assert lines_since(room, revision) == [(second, "complete", "COMPLETED"), (job_id, "release", "QUEUED")]
    assert of(room, job_id) == ("QUEUED", "dependencies_completed", 0)
    assert room.reader.history(job_id=job_id)[-1].at == room.now
    assert [job.id for job in settled] == [second]


@pytest.mark.parametrize("end", [S.FAILED, S.CANCELLED, S.DEAD])
def test_a_bad_end_blocks_by_default(room: Any, end: S) -> None:
    """With the policy `block` the job stays BLOCKED and says which dependency ended badly."""
    other = need(room)
    job_id = room.submit(dependencies=(other,)).job_id
    room.bring(other, end)
    assert of(room, job_id) == ("BLOCKED", "dependency_failed", 1)
    assert other in room.job(job_id).diagnostic


@pytest.mark.parametrize("end", [S.FAILED, S.CANCELLED, S.DEAD])
def test_a_bad_end_fails_where_that_is_the_policy(room: Any, end: S) -> None:
    """With the policy `fail` the job ends FAILED in the same transaction, and its end is answered to the caller."""
    other = need(room)
    job_id = room.submit(dependencies=(other,), on_dependency=FAIL).job_id
    if end is S.CANCELLED:
        ended = room.tell(other, events.Cancel("no"))
    else:
        room.bring(other, S.RUNNING)
        how = {"overrun": "12 of 10"} if end is S.DEAD else {}
        ended = room.end(room.token(other), events.GaveUp("never"), **how)
    assert [job.id for job in ended] == [other, job_id]
    assert of(room, job_id) == ("FAILED", "dependency_failed", 1)
    assert other in room.job(job_id).diagnostic


def test_a_chain_of_three_thousand_fails_at_once(room: Any) -> None:
    """One bad end fails a chain of 3,000 jobs in one transaction, each by the one before it."""
    room.ledger.add_queue("long", 4000)
    ids = [need(room), *(room.id() for _ in range(3000))]
    links = itertools.pairwise(ids)
    room.submit_many(
        [room.wanted(id=one, queue="long", dependencies=(before,), on_dependency=FAIL) for before, one in links]
    )
    ended = room.tell(ids[0], events.Cancel("no"))
    assert [job.id for job in ended] == ids
    assert room.reader.counts() == {S.CANCELLED: 1, S.FAILED: 3000}
    assert room.unfinished("long") == 0
    assert ids[2998] in room.job(ids[2999]).diagnostic


def test_a_block_ends_the_cascade(room: Any) -> None:
    """Where the policy is `block` a failure goes no further: who waits behind it goes on waiting."""
    first = need(room)
    second = room.submit(dependencies=(first,), on_dependency=BLOCK).job_id
    third = room.submit(dependencies=(second,), on_dependency=FAIL).job_id
    room.tell(first, events.Cancel("no"))
    assert of(room, second) == ("BLOCKED", "dependency_failed", 1)
    assert of(room, third) == ("BLOCKED", "waiting_for_dependencies", 1)


def test_five_hundred_may_wait_for_one_and_one_for_five_hundred(room: Any) -> None:
    """A fan of 500 is released whole by the end of its root, and its join by the last of the 500, exactly."""
    room.ledger.add_queue("wide", 1000)
    root = need(room)
    fan = room.submit_many([room.wanted(queue="wide", dependencies=(root,)) for _ in range(500)])
    join = room.submit(kind="test.join", queue="wide", dependencies=tuple(fan)).job_id
    assert room.job(join).unmet == 500
    room.bring(root, S.COMPLETED)
    assert room.reader.counts() == {S.COMPLETED: 1, S.QUEUED: 500, S.BLOCKED: 1}
    for number, job_id in enumerate(fan, 1):
        room.bring(job_id, S.COMPLETED)
        assert room.job(join).unmet == 500 - number
    assert of(room, join) == ("QUEUED", "dependencies_completed", 0)


@pytest.mark.parametrize("state", [S.PAUSED, S.CANCELLED])
def test_an_end_is_counted_wherever_the_job_stands(room: Any, state: S) -> None:
    """A job that is paused or ended when its dependency completes is not moved, and goes on from there unblocked."""
    other = need(room)
    job_id = room.submit(dependencies=(other,)).job_id
    room.bring(job_id, state)
    room.bring(other, S.COMPLETED)
    assert (room.state(job_id), room.job(job_id).unmet) == (state, 0)
    room.tell(job_id, events.Resume() if state is S.PAUSED else REQUEUE)
    assert room.state(job_id) is S.QUEUED


@pytest.mark.parametrize(("policy", "state"), [(BLOCK, S.BLOCKED), (FAIL, S.FAILED)])
def test_a_bad_end_is_met_when_a_paused_job_resumes(room: Any, policy: OnDependency, state: S) -> None:
    """A dependency that ended badly while the job was paused is met at its resume, as if it ended then."""
    other = need(room)
    job_id = room.submit(dependencies=(other,), on_dependency=policy).job_id
    room.bring(job_id, S.PAUSED)
    room.bring(other, S.FAILED)
    assert room.state(job_id) is S.PAUSED
    assert room.tell(job_id, events.Resume())[0].state is state
    assert of(room, job_id)[:2] == (str(state), "dependency_failed")


def test_a_release_goes_on_without_what_is_missing(room: Any) -> None:
    """A person's release waives what is missing for good: neither its end nor its failure moves the job any more."""
    first, second, third = need(room), need(room), need(room)
    job_id = room.submit(dependencies=(first, second, third), on_dependency=FAIL).job_id
    room.tell(job_id, RELEASE)
    assert of(room, job_id) == ("QUEUED", "go on without it", 0)
    room.bring(first, S.FAILED)
    room.bring(second, S.COMPLETED)
    assert of(room, job_id) == ("QUEUED", "go on without it", 0)
    room.tell(job_id, events.Pause())
    room.tell(job_id, events.Resume())
    assert room.state(job_id) is S.QUEUED


WAITS_AGAIN = {
    S.QUEUED: ("BLOCKED", "dependency_requeued"),
    S.RETRY_WAIT: ("BLOCKED", "dependency_requeued"),
    S.PAUSED: ("PAUSED", "pause_requested"),
    S.PAUSED_QUOTA: ("PAUSED_QUOTA", "budget_spent"),
    S.RECOVERY_REQUIRED: ("RECOVERY_REQUIRED", "publication_in_doubt"),
    S.FAILED: ("FAILED", "gave_up"),
}


@pytest.mark.parametrize("state", WAITS_AGAIN)
def test_who_went_on_waits_again_for_what_is_started_again(room: Any, state: S) -> None:
    """A requeued dependency is waited for again by whoever went on without it, at once or when it would go on."""
    other = need(room)
    job_id = room.submit(dependencies=(other,)).job_id
    room.bring(other, S.FAILED)
    room.tell(job_id, RELEASE)
    room.bring(job_id, state)
    room.tell(other, REQUEUE)
    assert of(room, job_id) == (*WAITS_AGAIN[state], 1)
    on_again = {
        S.PAUSED: events.Resume(),
        S.PAUSED_QUOTA: events.Resume(),
        S.RECOVERY_REQUIRED: events.Resolve(S.QUEUED, "looked at it"),
        S.FAILED: REQUEUE,
    }.get(state)
    if on_again:
        room.tell(job_id, on_again)
    assert (room.state(job_id), room.job(job_id).unmet) == (S.BLOCKED, 1)
    room.bring(other, S.COMPLETED)
    assert of(room, job_id) == ("QUEUED", "dependencies_completed", 0)


@pytest.mark.parametrize("state", [S.RUNNING, S.COMPLETED])
def test_who_runs_or_is_done_does_not_wait_again(room: Any, state: S) -> None:
    """A job that runs without its dependency, or ran, is not held back by the dependency's new start."""
    other = need(room)
    job_id = room.submit(dependencies=(other,)).job_id
    room.bring(other, S.FAILED)
    room.tell(job_id, RELEASE)
    room.bring(job_id, state)
    room.tell(other, REQUEUE)
    assert (room.state(job_id), room.job(job_id).unmet) == (state, 0)
    if state is S.RUNNING:
        room.end(room.token(job_id), room.ERROR)
        assert room.state(job_id) is S.RETRY_WAIT


def test_a_failed_dependency_is_waited_for_when_it_is_started_again(room: Any) -> None:
    """A job blocked by a bad end waits again once a person requeues the dependency; another bad end stays named."""
    first, second = need(room), need(room)
    one, both = room.submit(dependencies=(first,)).job_id, room.submit(dependencies=(first, second)).job_id
    room.bring(first, S.FAILED)
    room.bring(second, S.FAILED)
    room.tell(first, REQUEUE)
    assert of(room, one) == ("BLOCKED", "waiting_for_dependencies", 1)
    assert of(room, both) == ("BLOCKED", "dependency_failed", 2)
    assert second in room.job(both).diagnostic
    room.bring(first, S.COMPLETED)
    assert of(room, one) == ("QUEUED", "dependencies_completed", 0)
    assert of(room, both) == ("BLOCKED", "dependency_failed", 1)


def test_a_job_failed_by_its_dependency_fails_again_while_that_is_failed(room: Any) -> None:
    """Requeued under the policy `fail` while its dependency is still FAILED, a job ends at once, with both lines."""
    other = need(room)
    job_id = room.submit(dependencies=(other,), on_dependency=FAIL).job_id
    room.bring(other, S.FAILED)
    assert room.tell(job_id, REQUEUE)[0].state is S.FAILED
    assert room.verbs(job_id) == ["submit", "fail", "requeue", "fail"]
    assert room.unfinished() == 0


@pytest.mark.parametrize(
    ("answer", "how", "reason"),
    [
        (events.Missing("no tool"), {}, "tool_missing"),
        (events.Stopped("limit"), {"limit_used": True}, "active_time_limit"),
    ],
)
def test_dependencies_release_only_what_they_blocked(
    room: Any, answer: events.Answer, how: dict[str, bool], reason: str
) -> None:
    """A job blocked for another reason is not let go by a dependency that completes, and not failed past its words."""
    other = need(room)
    job_id = room.submit(dependencies=(other,)).job_id
    room.bring(other, S.FAILED)
    room.tell(job_id, RELEASE)
    room.bring(job_id, S.RUNNING)
    room.end(room.token(job_id), answer, **how)
    assert room.job(job_id).reason == reason
    room.tell(other, REQUEUE)
    # A missing tool is met again after the dependency; its return must not waive it. A used-up time stays a person's.
    waits = "waiting_for_dependencies" if reason == "tool_missing" else reason
    assert of(room, job_id) == ("BLOCKED", waits, 1)
    room.bring(other, S.COMPLETED)
    expected = ("QUEUED", "dependencies_completed", 0) if reason == "tool_missing" else ("BLOCKED", reason, 0)
    assert of(room, job_id) == expected


def test_a_time_that_has_not_come_outlasts_the_wait(room: Any) -> None:
    """E-Q6: a job that waited for a dependency still does not start before its time."""
    other = need(room)
    due_at = room.now + 3_600_000_000
    job_id = room.submit(dependencies=(other,), due_at=due_at).job_id
    room.bring(other, S.COMPLETED)
    assert (room.state(job_id), room.job(job_id).due_at) == (S.QUEUED, due_at)
    assert room.claim() is None
    room.now = due_at
    assert room.claim().job.id == job_id


def with_one_reopened(room: Any, first: S, **fields: Any) -> tuple[str, str, str]:
    """A job that went on without two dependencies, and waits again for the second, which was started again."""
    waived, reopened = need(room), need(room)
    job_id = room.submit(dependencies=(waived, reopened), **fields).job_id
    if first is S.FAILED:
        room.bring(waived, S.FAILED)
        room.bring(reopened, S.FAILED)
    else:
        room.tell(reopened, events.Cancel())
    if room.state(job_id) is S.FAILED:
        room.tell(job_id, REQUEUE)
    room.tell(job_id, RELEASE)
    room.tell(reopened, REQUEUE)
    assert of(room, job_id) == ("BLOCKED", "dependency_requeued", 1)
    return job_id, waived, reopened


def test_a_waived_dependency_counts_for_nothing(room: Any) -> None:
    """The end of a dependency that a person waived does not stand in for another that is still missing."""
    job_id, waived, reopened = with_one_reopened(room, S.QUEUED)
    room.bring(waived, S.COMPLETED)
    assert of(room, job_id) == ("BLOCKED", "dependency_requeued", 1)
    room.bring(reopened, S.COMPLETED)
    assert of(room, job_id) == ("QUEUED", "dependencies_completed", 0)


def test_a_waived_bad_end_is_not_met_again(room: Any) -> None:
    """A bad end that a person went on without neither names itself nor ends the job when it waits for another again."""
    job_id, waived, _ = with_one_reopened(room, S.FAILED)
    assert room.state(waived) is S.FAILED
    room.tell(job_id, events.Pause())
    room.tell(job_id, events.Resume())
    assert of(room, job_id) == ("BLOCKED", "waiting_for_dependencies", 1)


def test_a_used_up_time_is_not_talked_over(room: Any) -> None:
    """A job that waits for a person's word on its time keeps saying so while its dependencies fail and restart."""
    other = need(room)
    job_id = room.submit(dependencies=(other,)).job_id
    room.bring(other, S.FAILED)
    room.tell(job_id, RELEASE)
    room.bring(job_id, S.RUNNING)
    room.end(room.token(job_id), events.Stopped("limit"), limit_used=True)
    room.tell(other, REQUEUE)
    room.bring(other, S.FAILED)
    assert of(room, job_id) == ("BLOCKED", "active_time_limit", 1)
    room.tell(job_id, RELEASE)
    assert of(room, job_id) == ("QUEUED", "go on without it", 0)


def test_a_dependency_given_twice_is_one(room: Any) -> None:
    """A job that names a dependency twice waits for it once."""
    other = need(room)
    job_id = room.submit(dependencies=(other, other)).job_id
    assert of(room, job_id) == ("BLOCKED", "waiting_for_dependencies", 1)
    room.bring(other, S.COMPLETED)
    assert of(room, job_id) == ("QUEUED", "dependencies_completed", 0)
