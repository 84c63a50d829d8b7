"""E-Q4: priority, then submission; what cannot run now neither blocks nor slows what can, and the index proves it."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import events
from perenne.core.states import JobState
from perenne.store.claims import RIPEN_AT_MOST, Lane, next_due

S = JobState
MINUTE_S = 60


def claimed(room: Any, *lanes: Lane) -> list[str]:
    order = []
    while (claim := room.claim(*lanes)) is not None:
        order.append(claim.job.id)
    return order


def test_submission_decides_at_equal_priority(room: Any) -> None:
    """First come, first served, also within one microsecond."""
    ids = [room.submit().job_id for _ in range(5)]
    assert claimed(room) == ids


def test_priority_comes_before_submission(room: Any) -> None:
    """Higher priority first, then submission."""
    priorities = [0, 5, -5, 5, 0]
    ids = [room.submit(priority=priority).job_id for priority in priorities]
    assert claimed(room) == [ids[1], ids[3], ids[0], ids[4], ids[2]]


def test_a_low_priority_is_reached_in_time(room: Any) -> None:
    """One step of priority overtakes a minute of waiting and no more, so that nothing waits for ever."""
    old = room.submit(priority=0).job_id
    room.later(MINUTE_S - 1)
    early = room.submit(priority=1).job_id
    room.later(2)
    late = room.submit(priority=1).job_id
    assert claimed(room) == [early, old, late]


def test_the_best_of_all_lanes_and_queues_is_taken(room: Any) -> None:
    """Kinds and queues that a worker serves are one order; others are left alone."""
    room.ledger.add_queue("other", 9)
    first = room.submit(kind="test.b", queue="other").job_id
    room.submit(kind="test.c")
    room.submit(kind="test.a", version=2)
    second = room.submit(kind="test.a").job_id
    best = room.submit(kind="test.b", priority=3).job_id
    lanes = (Lane("test.a", 1), Lane("test.b", 1))
    assert claimed(room, *lanes) == [best, first, second]
    assert room.claim(Lane("test.nothing", 1)) is None


def test_a_job_keeps_its_place_when_it_comes_back(room: Any) -> None:
    """Suspended, interrupted or paused meanwhile, a job stands where its submission put it."""
    first = room.running()
    second = room.submit().job_id
    room.settle(first)
    room.tell(second, events.Pause())
    room.tell(second, events.Resume())
    assert claimed(room) == [first.job_id, second]


def test_a_due_job_takes_the_place_of_its_submission(room: Any) -> None:
    """A job that waited for its time is claimed as soon as it is due, before those submitted after it."""
    late = room.submit(due_at=room.now + 10_000_000).job_id
    soon = room.submit(due_at=room.now + 5_000_000).job_id
    now = room.submit().job_id
    assert room.driver.read(next_due) == room.now + 5_000_000
    room.later(10)
    assert claimed(room) == [late, soon, now]
    assert room.driver.read(next_due) is None


def test_many_that_become_due_at_once_are_all_found(room: Any) -> None:
    """Times that have come are taken up in bounded steps, and none is forgotten."""
    room.ledger.add_queue("many", 10_000)
    number = RIPEN_AT_MOST + 50
    ids = room.submit_many([room.wanted(queue="many", due_at=room.now + 1 + n) for n in range(number)])
    room.later(1)
    found = claimed(room)
    assert len(found) == len(set(found)) == len(ids)


@pytest.fixture
def crowded(room: Any) -> Any:
    """10,000 jobs that cannot run: of a paused queue, of an unknown kind, not due, or blocked."""
    room.ledger.add_queue("paused", 100_000)
    room.ledger.add_queue("wide", 100_000)
    first = room.submit(kind="test.other").job_id
    idle: list[dict[str, Any]] = [
        {"queue": "paused"},
        {"queue": "wide", "kind": "test.unknown"},
        {"queue": "wide", "due_at": room.now + 10**12},
        {"queue": "wide", "dependencies": (first,)},
    ]
    room.submit_many([room.wanted(priority=9, **idle[number % 4]) for number in range(10_000)])
    room.control("pause", "paused")
    return room


def test_what_cannot_run_blocks_nothing(crowded: Any) -> None:
    """Behind 10,000 better jobs that cannot run, the one that can is claimed at once."""
    job_id = crowded.submit().job_id
    assert claimed(crowded) == [job_id]


PLANS = {
    "best_in_lane": ({"queue": "wide", "kind": "test.work", "version": 1, "limit": 5}, "job_ripe"),
    "ripen": ({"now": 1, "limit": 5}, "job_due"),
    "ripen_after_step": ({"now": 1, "limit": 5}, "job_backoff"),
    "next_due": ({}, "job_due"),
    "blocked_jobs": ({}, "job_blocked"),
    "open_attempts": ({}, "job_running"),
    "asked_of_running": ({}, "job_running"),
    "job_by_id": ({"id": "x"}, "sqlite_autoindex_job_1"),
    "job_by_key": ({"key": "x"}, "job_key"),
    "active_job": ({"unique_key": "x"}, "job_active"),
    "dependants_of_job": ({"needs": 1}, "dependency_needs"),
    "needs_of_job": ({"job": 1}, "PRIMARY KEY"),
    "outcomes_of_needs": ({"job_id": "x", "after": 0, "limit": 5}, "PRIMARY KEY"),
    "attempts_of_job": ({"job_id": "x"}, "attempt USING PRIMARY KEY"),
    "pending_notices": ({"listener": "x", "limit": 5}, "notice_of_listener"),
    "token_holds": ({"job_id": "x", "attempt": "x", "number": 1, "epoch": 1}, "sqlite_autoindex_job_1"),
}


def test_a_hot_query_walks_no_table(crowded: Any) -> None:
    """Every query of claim, release, recovery and report finds its rows by an index, and sorts none of them."""
    plans = {query: crowded.house.plan(query, **values) for query, (values, _) in PLANS.items()}
    assert {query: steps for query, steps in plans.items() if not is_narrow(steps, PLANS[query][1])} == {}


def is_narrow(steps: list[str], index: str) -> bool:
    """Whether the index is used, no table is walked, and nothing is sorted; `store` has one row."""
    walked = [step for step in steps if step.startswith("SCAN") and "INDEX" not in step and step != "SCAN store"]
    return any(index in step for step in steps) and not walked and not any("TEMP B-TREE" in step for step in steps)


def test_a_claim_reads_no_more_rows_however_many_wait(crowded: Any) -> None:
    """The work of a claim does not grow with the jobs that cannot run."""
    crowded.submit()
    assert crowded.house.steps(lambda: crowded.claim()) < 2_000
    assert crowded.house.steps(lambda: crowded.claim()) < 2_000


def test_nobody_is_claimed_ahead_whom_a_death_would_bury(room: Any) -> None:
    """Beyond its slots a worker takes only who outlives an interruption, and nobody past one that does not."""
    first, second, frail, last = (
        room.submit(max_attempts=most, max_interruptions=apart).job_id
        for most, apart in ((1, None), (3, None), (3, 1), (3, None))
    )

    def turn(slots: int, ahead: int) -> list[str]:
        ids = [f"{room.now}-{number}" for number in range(slots + ahead)]
        lanes, actor = [Lane("test.work", 1)], f"worker:{room.OWNER}"
        done = room.ledger.turn([], lanes, ids, owner=room.OWNER, now=room.now, actor=actor, company=True, ahead=ahead)
        room.later(1)
        return [claim.job.id for claim in done.claims]

    assert turn(0, 2) == []
    assert turn(1, 3) == [first, second]
    assert turn(0, 2) == []
    assert turn(1, 1) == [frail, last]
