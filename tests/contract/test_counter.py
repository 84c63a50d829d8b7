"""Whatever is said to a ledger in whatever order, its sums are right: counts, attempts, needs, history, notices."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perenne.core import events
from perenne.core.job import OnDependency
from perenne.core.publication import Published
from perenne.core.states import FINAL, JobState
from perenne.errors import EngineError, QueueFull
from perenne.store.ledger import Lane, Ledger

S = JobState
CAPACITY = 6
PICK = st.integers(0, 30)
ANSWERS = st.sampled_from(
    [
        events.Returned(b"1"),
        events.Snoozed(1),
        events.GaveUp("never"),
        events.Doubted("who knows"),
        events.Missing("no tool"),
        events.Stopped("limit"),
        events.Stopped("quota"),
        events.Stopped("suspend"),
        events.Stopped("pause"),
        None,  # an error
    ]
)
PUBLISHED = st.sampled_from([Published.absent()] * 6 + [Published.coherent(b"7"), Published.incoherent("x")])
SPOKEN = st.sampled_from(
    [
        events.Release("go on"),
        events.Release("go on"),
        events.Block("tool_missing"),
        events.Reject("900 GiB"),
        events.LackBudget("3 tokens"),
        events.Cancel(),
        events.Pause(),
        events.Pause(),
        events.Resume(),
        events.Resume(),
        events.Resolve(S.COMPLETED, "looked"),
        events.Resolve(S.QUEUED, "looked"),
        events.Resolve(S.FAILED, "looked"),
        events.Requeue("once more"),
        events.Requeue("once more"),
    ]
)
COMMANDS = st.one_of(
    st.tuples(
        st.just("submit"),
        st.fixed_dictionaries(
            {
                "needs": st.lists(PICK, max_size=3),
                "policy": st.sampled_from(OnDependency),
                "attempts": st.integers(1, 2),
                "key": st.none() | st.integers(0, 1),
                "active": st.none() | st.integers(0, 1),
            }
        ),
    ),
    st.tuples(st.just("claim"), st.none()),
    st.tuples(st.just("claim"), st.none()),
    st.tuples(st.just("end"), st.tuples(PICK, ANSWERS, PUBLISHED, st.booleans(), st.integers(0, 9))),
    st.tuples(st.just("settle"), st.tuples(PICK, PUBLISHED)),
    st.tuples(st.just("tell"), st.tuples(PICK, SPOKEN)),
    st.tuples(st.just("tell"), st.tuples(PICK, SPOKEN)),
    st.tuples(st.just("later"), st.none()),
)


class Story:
    """One sequence of commands in a queue of its own, on a ledger that other stories used before."""

    def __init__(self, room: Any, number: int) -> None:
        self.room, self.queue = room, f"story{number}"
        self.kind, self.ids = f"test.story{number}", []  # type: str, list[str]
        self.lane = Lane(self.kind, 1)
        room.ledger.add_queue(self.queue, CAPACITY)

    def play(self, commands: list[tuple[str, Any]]) -> None:
        for name, values in commands:
            before = self.room.house.tables()
            try:
                getattr(self, name)(values)
            except EngineError:
                assert self.room.house.tables() == before, (name, values)

    def _pick(self, number: int) -> str:
        return self.ids[number % len(self.ids)] if self.ids else self.room.id()

    def submit(self, fields: dict[str, Any]) -> None:
        needs = tuple({self._pick(number) for number in fields["needs"]}) if self.ids else ()
        key, active = fields["key"], fields["active"]
        receipt = self.room.submit(
            kind=self.kind,
            queue=self.queue,
            dependencies=needs,
            on_dependency=fields["policy"],
            max_attempts=fields["attempts"],
            key=None if key is None else f"{self.queue}.{key}",
            unique_key=None if active is None else f"{self.queue}.{active}",
        )
        if not receipt.reused:
            self.ids.append(receipt.job_id)

    def claim(self, _: None) -> None:
        self.room.claim(self.lane)

    def end(self, values: tuple[int, Any, Published, bool, int]) -> None:
        number, answer, published, limit_used, luck = values
        how = {"limit_used": limit_used and answer is not None, "luck": luck / 10}
        self.room.end(self.room.token(self._pick(number)), answer or self.room.ERROR, published, **how)

    def settle(self, values: tuple[int, Published]) -> None:
        self.room.settle(self.room.token(self._pick(values[0])), values[1])

    def tell(self, values: tuple[int, events.Event]) -> None:
        self.room.tell(self._pick(values[0]), values[1])

    def later(self, _: None) -> None:
        self.room.later(6)


@pytest.fixture(scope="module")
def shared_room(tmp_path_factory: pytest.TempPathFactory, make_room: Any) -> Any:
    """One ledger for all examples, so that each also stands beside what others left."""
    room = make_room(tmp_path_factory.mktemp("stories"))
    room.notices.register("watcher", now=room.now)
    room.stories = 0
    yield room
    room.driver.close()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(COMMANDS, min_size=5, max_size=40))
def test_the_sums_are_right(shared_room: Any, commands: list[tuple[str, Any]]) -> None:
    """After any sequence of commands every count equals what is counted, and every refused one left no trace."""
    shared_room.stories += 1
    story = Story(shared_room, shared_room.stories)
    story.play(commands)
    jobs = {job.id: job for job in shared_room.reader.jobs(limit=1_000_000) if job.queue == story.queue}
    check_queue(shared_room, story, jobs)
    for job in jobs.values():
        check_row(job)
        check_attempts(shared_room, job)
        check_history(shared_room, job)
    check_needs(shared_room, jobs)


def check_queue(room: Any, story: Story, jobs: dict[str, Any]) -> None:
    assert room.unfinished(story.queue) == sum(not job.is_final for job in jobs.values()) <= CAPACITY
    active = [job.unique_key for job in jobs.values() if job.unique_key and not job.is_final]
    assert len(active) == len(set(active))


def check_row(job: Any) -> None:
    assert (job.attempt is not None) == (job.state is S.RUNNING)
    assert (job.finished_at is not None) == job.is_final
    assert 0 <= job.spent <= job.max_attempts
    assert not (job.pause_asked and job.state is not S.RUNNING)
    assert not (job.state in (S.QUEUED, S.RETRY_WAIT) and (job.unmet or job.spent == job.max_attempts))
    assert job.reason


def check_attempts(room: Any, job: Any) -> None:
    attempts = room.reader.attempts(job.id)
    assert [attempt.number for attempt in attempts] == list(range(1, job.number + 1))
    assert [attempt.id for attempt in attempts if attempt.ended_at is None] == [job.attempt] * (job.attempt is not None)
    assert job.spent <= sum(attempt.spent for attempt in attempts)


def check_history(room: Any, job: Any) -> None:
    state: str | None = None
    lines = room.reader.history(job_id=job.id)
    for line in lines:
        assert line.from_state == state
        state = line.to_state
    assert state == job.state
    ends = [line.to_state for line in lines if line.to_state in FINAL]
    told = [notice.state for notice in room.notices.pending("watcher", 1_000_000) if notice.job_id == job.id]
    assert sorted(told) == sorted(ends)


def check_needs(room: Any, jobs: dict[str, Any]) -> None:
    for job in jobs.values():
        needs = room.driver.read(lambda tx, seq=job.seq: tx.all("needs_of_job", job=seq))
        missing = [state for _, state, waived in needs if state != S.COMPLETED and not waived]
        if job.state is not S.COMPLETED:
            assert job.unmet == len(missing)
        if job.state is S.BLOCKED and job.reason == "waiting_for_dependencies":
            assert missing
            assert not set(missing) & FINAL


def test_the_bound_is_exact_across_processes(room: Any) -> None:
    """Two processes that fill one queue at once fill it exactly, and every other request is refused."""
    room.ledger.add_queue("small", 20)
    beside = room.house.open()
    ledgers = [room.ledger, Ledger(beside)]

    def fill(ledger: Ledger) -> int:
        stored = 0
        for _ in range(10):
            with contextlib.suppress(QueueFull):
                ledger.submit(room.wanted(queue="small"), now=room.now, actor="a")
                stored += 1
        return stored

    try:
        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(fill, [ledgers[n % 2] for n in range(6)])) == 20
    finally:
        beside.close()
    assert room.unfinished("small") == len(room.reader.jobs()) == 20
