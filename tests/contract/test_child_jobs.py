"""Jobs that a running attempt submits: stored under its whole token, once, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perenne.core import events, identity
from perenne.core.job import Receipt, Submission, Token
from perenne.core.states import JobState
from perenne.errors import DependencyCycle, DuplicateJob, InvalidInput, JobNotFound, QueueFull, StaleToken

S = JobState


def child(room: Any, token: Token, name: str = "one", **fields: Any) -> Submission:
    id = identity.child_id(token.job_id, name)
    made: Submission = room.wanted(**{"id": id, "parent": token.job_id, "kind": "test.child", **fields})
    return made


def submit(room: Any, token: Token, *children: Submission) -> Sequence[Receipt]:
    receipts: Sequence[Receipt] = room.ledger.submit_many(
        children, now=room.now, actor=f"job:{token.job_id}", token=token
    )
    return receipts


def test_a_child_names_its_parent(room: Any) -> None:
    """The parent stands on the child's row, and its birth says that the parent submitted it."""
    token = room.running()
    (receipt,) = submit(room, token, child(room, token))
    assert (receipt.state, receipt.reused) == (S.QUEUED, False)
    assert room.job(receipt.job_id).parent == token.job_id
    assert room.job(token.job_id).parent is None
    (birth,) = room.reader.history(job_id=receipt.job_id)
    assert (birth.verb, birth.actor) == ("submit", f"job:{token.job_id}")


def test_the_same_child_is_stored_once(room: Any) -> None:
    """The attempt that asks again, and a later attempt of the same job, find the child that is there; nothing moves."""
    token = room.running()
    (first,) = submit(room, token, child(room, token))
    before = room.house.tables()
    assert submit(room, token, child(room, token))[0].reused
    assert room.house.tables() == before
    room.settle(token)
    again = room.token(token.job_id) if room.claim() else token
    assert again.number == token.number + 1
    (found,) = submit(room, again, child(room, again))
    assert (found.job_id, found.reused) == (first.job_id, True)


@pytest.mark.parametrize("end", [S.FAILED, S.CANCELLED, S.DEAD])
def test_a_parent_that_is_started_again_finds_its_children(room: Any, end: S) -> None:
    """A person's requeue begins the count of attempts anew, and forgets no child, however either of them ended."""
    token = room.running()
    (first,) = submit(room, token, child(room, token))
    room.tell(first.job_id, events.Cancel())
    if end is S.CANCELLED:
        room.tell(token.job_id, events.Cancel())
        room.end(token)
    else:
        room.end(token, events.GaveUp("no") if end is S.FAILED else None, overrun="much" if end is S.DEAD else None)
    assert room.state(token.job_id) is end
    room.tell(token.job_id, events.Requeue("once more"))
    again = room.claim().token
    (found,) = submit(room, again, child(room, again))
    assert (found.job_id, found.state, found.reused) == (first.job_id, S.CANCELLED, True)


def test_a_stale_attempt_stores_no_child(room: Any) -> None:
    """Once another took it over, the token stores nothing and finds nothing: neither a new child nor a known one."""
    token = room.running()
    submit(room, token, child(room, token))
    room.settle(token)
    before = room.house.tables()
    for wanted in (child(room, token), child(room, token, "two")):
        with pytest.raises(StaleToken):
            submit(room, token, wanted)
    assert room.house.tables() == before


def test_a_child_of_the_same_name_and_other_content_is_refused(room: Any) -> None:
    """E-Q1 holds for children: the name belongs to what was asked first, and the whole batch is undone."""
    token = room.running()
    submit(room, token, child(room, token))
    before = room.house.tables()
    with pytest.raises(DuplicateJob, match="whose input differs"):
        submit(room, token, child(room, token, "two"), child(room, token, input=b'{"other":1}'))
    assert room.house.tables() == before


def test_children_count_in_their_queue(room: Any) -> None:
    """The bound of the queue holds for children: one too many, and none of the batch is stored."""
    room.ledger.add_queue("small", 2)
    token = room.running()
    before = room.house.tables()
    with pytest.raises(QueueFull, match="the limit is 2"):
        submit(room, token, *(child(room, token, str(number), queue="small") for number in range(3)))
    assert room.house.tables() == before
    submit(room, token, *(child(room, token, str(number), queue="small") for number in range(2)))
    assert room.unfinished("small") == 2


def test_children_may_wait_for_each_other_and_for_their_parent(room: Any) -> None:
    """Members of one batch, in any order, and the parent itself, which still runs."""
    token = room.running()
    needs = (identity.child_id(token.job_id, "left"), identity.child_id(token.job_id, "right"), token.job_id)
    join = child(room, token, "join", dependencies=needs)
    receipts = submit(room, token, join, child(room, token, "left"), child(room, token, "right"))
    assert [receipt.state for receipt in receipts] == [S.BLOCKED, S.QUEUED, S.QUEUED]
    for needed in needs[:2]:
        room.bring(needed, S.COMPLETED)
    assert room.job(receipts[0].job_id).unmet == 1
    room.end(token)
    assert room.state(receipts[0].job_id) is S.QUEUED


def test_a_circle_of_children_is_refused_by_its_path(room: Any) -> None:
    """A circle inside the batch is named; nothing is stored."""
    token = room.running()
    left, right = (identity.child_id(token.job_id, name) for name in ("left", "right"))
    before = room.house.tables()
    with pytest.raises(DependencyCycle, match=f"{left} → {right} → {left}"):
        submit(
            room,
            token,
            child(room, token, "left", dependencies=(right,)),
            child(room, token, "right", dependencies=(left,)),
        )
    assert room.house.tables() == before


def test_no_circle_can_be_closed_by_a_later_batch(room: Any) -> None:
    """A child that waits for one that is not there yet is refused as dangling; one that is there takes no new needs."""
    token = room.running()
    left, right = (identity.child_id(token.job_id, name) for name in ("left", "right"))
    with pytest.raises(JobNotFound, match=right):
        submit(room, token, child(room, token, "left", dependencies=(right,)))
    submit(room, token, child(room, token, "left"))
    submit(room, token, child(room, token, "right", dependencies=(left,)))
    before = room.house.tables()
    with pytest.raises(DuplicateJob, match="whose dependencies differs"):
        submit(room, token, child(room, token, "left", dependencies=(right,)))
    assert room.house.tables() == before


def test_a_parent_is_an_id(room: Any) -> None:
    """A parent that is no UUID is refused by name."""
    token = room.running()
    with pytest.raises(InvalidInput, match="parent: 'x'"):
        submit(room, token, child(room, token, parent="x"))
