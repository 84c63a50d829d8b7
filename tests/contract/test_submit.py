"""E-Q1 to E-Q3: a request is stored once, within an exact bound, or refused by name with nothing written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import OnDependency
from perenne.core.states import JobState
from perenne.errors import DependencyCycle, DuplicateJob, EngineError, InvalidInput, JobNotFound, QueueFull, TooLarge

S = JobState
NOBODY = "01998d3b-0000-7000-8000-ffffffffffff"


def refused(room: Any, call: Callable[[], Any], error: type[EngineError], *words: str) -> EngineError:
    before = room.house.tables()
    with pytest.raises(error) as raised:
        call()
    assert room.house.tables() == before
    for word in words:
        assert word in str(raised.value)
    return raised.value


def unchanged(room: Any, call: Callable[[], Any]) -> Any:
    before = room.house.tables()
    answer = call()
    assert room.house.tables() == before
    return answer


@pytest.mark.parametrize("state", list(JobState))
def test_the_same_key_is_the_same_job(room: Any, state: S) -> None:
    """The key of a job lives as long as the job, in whatever state it is; priority and times are not compared."""
    job_id = room.in_state(state, key="k")
    needs = tuple(job.id for job in room.reader.jobs() if job.id != job_id)
    again = unchanged(
        room, lambda: room.submit(key="k", dependencies=needs, priority=9, due_at=room.now + 5, max_attempts=9)
    )
    assert (again.job_id, again.state, again.reused) == (job_id, state, True)


@pytest.mark.parametrize(
    "other",
    [{"kind": "test.more"}, {"version": 2}, {"input": b'{"x":1}'}, {"dependencies": 0}, {"dependencies": 2}],
)
def test_the_same_key_with_other_content_is_refused(room: Any, other: dict[str, Any]) -> None:
    """Another kind, version, input or set of dependencies under a key is `DuplicateJob`, naming what differs."""
    needs = [room.submit(kind="test.need").job_id for _ in range(2)]
    job_id = room.submit(key="k", dependencies=needs[:1]).job_id
    given = {**other, "dependencies": needs[: other.get("dependencies", 1)]}
    error = refused(room, lambda: room.submit(key="k", **given), DuplicateJob, "'k'", job_id, "differs")
    assert (error.field, error.job_id) == ("key", job_id)


def test_dependencies_are_compared_as_a_set(room: Any) -> None:
    """The order of dependencies, or one given twice, does not make another request."""
    one, two = room.submit(kind="test.need").job_id, room.submit(kind="test.need").job_id
    job_id = room.submit(key="k", dependencies=(one, two)).job_id
    assert room.submit(key="k", dependencies=(two, one, two)).job_id == job_id


def test_the_same_id_is_the_same_job(room: Any) -> None:
    """An application that fixes its ids submits twice and has one job; other content under the id is refused."""
    job_id = room.id()
    room.submit(id=job_id, key="k")
    for key in ("k", None):
        assert unchanged(room, lambda k=key: room.submit(id=job_id, key=k)).reused
    refused(room, lambda: room.submit(id=job_id, input=b"[]"), DuplicateJob, job_id, "input differs")


def test_an_id_never_changes_its_key(room: Any) -> None:
    """A key that would be lost, because the id already belongs to a job with another one or none, is refused."""
    keyed, plain = room.submit(key="k").job_id, room.submit().job_id
    refused(room, lambda: room.submit(id=keyed, key="other"), DuplicateJob, keyed, "key differs")
    refused(room, lambda: room.submit(id=plain, key="other"), DuplicateJob, plain, "key differs")


@pytest.mark.parametrize("state", list(JobState))
def test_one_unfinished_job_per_active_key(room: Any, state: S) -> None:
    """E-Q6: while a job with this active key is unfinished another is refused by name; once it ended it is taken."""
    job_id = room.in_state(state, unique_key="u")
    if room.job(job_id).is_final:
        assert not room.submit(unique_key="u").reused
    else:
        error = refused(room, lambda: room.submit(unique_key="u"), DuplicateJob, "'u'", job_id)
        assert (error.field, error.job_id) == ("unique_key", job_id)


def test_a_requeue_meets_the_active_key(room: Any) -> None:
    """A person cannot start a job again while another holds its active key; that is refused by name."""
    old = room.in_state(S.FAILED, unique_key="u")
    active = room.submit(unique_key="u").job_id
    refused(room, lambda: room.tell(old, events.Requeue("once more")), DuplicateJob, "'u'", active)


def test_the_bound_is_exact(room: Any) -> None:
    """A queue of three takes three unfinished jobs, RUNNING and PAUSED included; the fourth names bound and way out."""
    room.ledger.add_queue("small", 3)
    running = room.in_state(S.RUNNING, queue="small")
    room.in_state(S.PAUSED, queue="small")
    room.submit(queue="small", key="k")
    error = refused(room, lambda: room.submit(queue="small"), QueueFull, "small", "3")
    assert (error.queue, error.value, error.limit) == ("small", 3, 3)
    room.submit()
    room.end(room.token(running))
    room.submit(queue="small")
    refused(room, lambda: room.submit(queue="small"), QueueFull)


def test_a_full_queue_still_answers_for_what_it_holds(room: Any) -> None:
    """A repeated request of a job in a full queue is answered, and another content under its key is not "full"."""
    room.ledger.add_queue("small", 1)
    wanted = room.wanted(queue="small", key="k")
    first = room.ledger.submit(wanted, now=room.now, actor="a")
    again = unchanged(room, lambda: room.submit(queue="small", key="k"))
    assert (again.job_id, again.reused) == (first.job_id, True)
    assert unchanged(room, lambda: room.submit(queue="small", id=wanted.id)).reused
    refused(room, lambda: room.submit(queue="small", key="k", input=b"[]"), DuplicateJob)


def test_a_requeue_meets_the_bound(room: Any) -> None:
    """E-Q2: a person's requeue needs a place; in a full queue it is refused and the job stays as it is."""
    room.ledger.add_queue("small", 1)
    failed = room.in_state(S.FAILED, queue="small")
    room.submit(queue="small")
    refused(room, lambda: room.tell(failed, events.Requeue("once more")), QueueFull, "small")


def test_no_internal_move_meets_the_bound(room: Any) -> None:
    """In a full queue every job still goes on: claim, retry, pause, resume, release and end need no place."""
    room.ledger.add_queue("small", 2)
    need = room.submit(queue="small").job_id
    waiting = room.submit(queue="small", dependencies=(need,)).job_id
    room.bring(need, S.RETRY_WAIT)
    room.tell(need, events.Pause())
    room.tell(need, events.Resume())
    room.later(60)
    room.bring(need, S.COMPLETED)
    assert room.state(waiting) is S.QUEUED
    assert room.unfinished("small") == 1


@pytest.mark.parametrize("policy", list(OnDependency))
@pytest.mark.parametrize("state", list(JobState))
def test_a_dependency_in_any_state(room: Any, state: S, policy: OnDependency) -> None:
    """A job waits for what is not COMPLETED; what ended badly before fails it, is said to block it, or lets it go."""
    need = room.in_state(state, kind="test.need")
    receipt = room.submit(dependencies=(need,), on_dependency=policy)
    job = room.job(receipt.job_id)
    ended_badly = state in (S.FAILED, S.CANCELLED, S.DEAD)
    if state is S.COMPLETED or (ended_badly and policy is OnDependency.CONTINUE):
        expected = (S.QUEUED, "submitted", 0)
    elif ended_badly and policy is OnDependency.FAIL:
        expected = (S.FAILED, "dependency_failed", 1)
    else:
        expected = (S.BLOCKED, "dependency_failed" if ended_badly else "waiting_for_dependencies", 1)
    assert (job.state, job.reason, job.unmet) == expected
    assert receipt.state is job.state
    assert (need in (job.diagnostic or "")) == (job.reason == "dependency_failed")


def test_a_missing_dependency_is_refused(room: Any) -> None:
    """E-Q3: a dependency exists before the job that needs it; the error names the one that does not."""
    need = room.submit(kind="test.need").job_id
    for missing in (NOBODY, "\udcff", "", "not-an-id"):
        error = refused(room, lambda m=missing: room.submit(dependencies=(need, m)), JobNotFound, "dependencies")
        assert error.value == missing


def test_a_job_cannot_wait_for_itself(room: Any) -> None:
    """E-Q3: the shortest circle is refused naming its path."""
    refused(room, lambda: room.submit(id=NOBODY, dependencies=(NOBODY,)), DependencyCycle, f"{NOBODY} → {NOBODY}")


BAD: dict[str, tuple[dict[str, Any], type[EngineError]]] = {
    "id": ({"id": "7"}, InvalidInput),
    "id in capitals": ({"id": NOBODY.upper()}, InvalidInput),
    "input": ({"input": b"x" * (256 * 1024 + 1)}, TooLarge),
    "queue": ({"queue": "nowhere"}, InvalidInput),
    "queue without a name": ({"queue": ""}, InvalidInput),
    "queue with a long name": ({"queue": "x" * 201}, TooLarge),
    "key": ({"key": ""}, InvalidInput),
    "key with NUL": ({"key": "a\0b"}, InvalidInput),
    "key with half a character": ({"key": "\udcff"}, InvalidInput),
    "key that is long": ({"key": "é" * 257}, TooLarge),
    "key that is no text": ({"key": 7}, InvalidInput),
    "unique_key": ({"unique_key": " "}, InvalidInput),
    "unique_key with half a character": ({"unique_key": "\udcff"}, InvalidInput),
    "unique_key that is long": ({"unique_key": "x" * 513}, TooLarge),
    "priority": ({"priority": 1001}, InvalidInput),
    "priority below": ({"priority": -1001}, InvalidInput),
    "priority between": ({"priority": 0.5}, InvalidInput),
    "max_attempts": ({"max_attempts": 0}, InvalidInput),
    "max_attempts above": ({"max_attempts": 101}, InvalidInput),
    "max_interruptions": ({"max_interruptions": 0}, InvalidInput),
    "max_interruptions above": ({"max_interruptions": 101}, InvalidInput),
    "due_at": ({"due_at": -1}, InvalidInput),
    "due_at beyond all years": ({"due_at": 2**62}, InvalidInput),
    "dependencies": ({"dependencies": tuple(map(str, range(10_001)))}, InvalidInput),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_refused_by_its_field(room: Any, name: str) -> None:
    """One sentence names the field, and nothing is written."""
    fields, error = BAD[name]
    field = next(iter(fields))
    assert refused(room, lambda: room.submit(**fields), error, f"{field}: ").field == field


def test_every_column_is_kept(room: Any) -> None:
    """What was submitted is what is read back."""
    wanted = room.wanted(
        input=b"\x00\xff",
        key="é" * 256,
        unique_key="u",
        priority=-1000,
        due_at=room.now + 1,
        on_dependency=OnDependency.FAIL,
        max_attempts=100,
        publications='{"a":"b"}',
        requested_at=5,
        active_limit_ms=30_000,
        max_interruptions=100,
    )
    room.ledger.submit(wanted, now=room.now, actor="a")
    job = room.job(wanted.id)
    for field in wanted.__struct_fields__:
        if field not in ("dependencies", "durability"):  # the one has rows of its own, the other none
            assert getattr(job, field) == getattr(wanted, field)
    assert (job.submitted_at, job.updated_at, job.revision) == (room.now, room.now, 1)
