"""Faults that the machine found, each as a test of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from machine.jobs import SECOND
from machine.site import NOW, OWNERS, Site
from perenne.core import events
from perenne.core.job import Submission
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.errors import InvalidInput
from perenne.store.ledger import Lane, Ledger


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    site = Site()
    yield site.one.ledger
    site.leave()


def wanted(number: int, *needs: str, key: str | None = None, due_at: int = 0) -> Submission:
    id = f"00000000-0000-4000-8000-{number:012d}"
    place = {"kind": "mail", "version": 1, "queue": "wide"}
    return Submission(id=id, input=b"{}", key=key, dependencies=needs, due_at=due_at, **place)


def claimed(ledger: Ledger, now: int) -> str | None:
    claim = ledger.claim([Lane("mail", 1)], owner=OWNERS[0], attempt=f"attempt {now}", now=now)
    return claim and claim.job.id


def fail(ledger: Ledger) -> None:
    """Claim a job and end its attempt with an error, so that it waits some seconds from NOW on."""
    claim = ledger.claim([Lane("mail", 1)], owner=OWNERS[0], attempt="attempt", now=NOW)
    assert claim is not None
    failed = events.Ended(answer=events.Raised("it broke", True, Backoff()), published=Published.absent())
    ledger.end(claim.token, failed, now=NOW, luck=0.9, actor="worker:test")


def test_a_batch_is_submitted_again_under_its_keys(ledger: Ledger) -> None:
    """A client that lost the answer makes its batch anew, with new ids and the same keys, and gets the same jobs."""
    first, second = (
        [one, wanted(number + 1, one.id, key="second")]
        for number, one in ((1, wanted(1, key="first")), (3, wanted(3, key="first")))
    )
    receipts = ledger.submit_many(first, now=NOW, actor="person:test")
    again = ledger.submit_many(second, now=NOW + 1, actor="person:test")
    assert [receipt.job_id for receipt in again] == [receipt.job_id for receipt in receipts]
    assert all(receipt.reused for receipt in again)


def test_one_request_twice_in_a_batch_is_refused(ledger: Ledger) -> None:
    """A batch in which one id stands twice is refused, be it by two values or by one value given twice."""
    one = wanted(1)
    with pytest.raises(InvalidInput, match="twice"):
        ledger.submit_many([one, one], now=NOW, actor="person:test")


def test_a_lane_named_twice_is_one_lane(ledger: Ledger) -> None:
    """A worker that names a lane twice gets each job once."""
    for number in (1, 2):
        ledger.submit(wanted(number), now=NOW, actor="person:test")
    lanes, attempts = [Lane("mail", 1)] * 2, ["attempt 1", "attempt 2"]
    turn = ledger.turn([], lanes, attempts, owner=OWNERS[0], now=NOW, actor="worker:test")
    assert len({claim.job.id for claim in turn.claims}) == 2


def test_a_clock_set_back_ends_no_wait_that_was_asked_for(ledger: Ledger) -> None:
    """A job that was submitted for a later time, paused and resumed, still waits for it when the clock is set back."""
    one = wanted(1, due_at=NOW + 3600 * SECOND)
    ledger.submit(one, now=NOW, actor="person:test")
    for event in (events.Pause(), events.Resume()):
        ledger.tell(one.id, event, now=NOW + SECOND, actor="person:test")
    assert claimed(ledger, NOW - 60 * SECOND) is None


def test_a_clock_set_back_is_seen_after_another_write(ledger: Ledger) -> None:
    """A backoff of seconds does not last an hour when the clock is set back by one, whoever writes next."""
    one, other = wanted(1), wanted(2, due_at=NOW + 7200 * SECOND)
    ledger.submit(one, now=NOW, actor="person:test")
    fail(ledger)
    ledger.submit(other, now=NOW - 3600 * SECOND, actor="person:test")
    assert claimed(ledger, NOW - 3590 * SECOND) == one.id


@pytest.mark.parametrize("words", [(events.Pause(), events.Resume()), (events.LackBudget("spent"), events.Resume())])
def test_a_clock_set_back_is_seen_by_who_moves_the_job(ledger: Ledger, words: tuple[events.Event, ...]) -> None:
    """A job in a backoff that is held and let go on by the new clock is due at once, not when that clock catches up."""
    one = wanted(1)
    ledger.submit(one, now=NOW, actor="person:test")
    fail(ledger)
    for second, word in enumerate(words):
        ledger.tell(one.id, word, now=NOW - 3600 * SECOND + second, actor="person:test")
    assert claimed(ledger, NOW - 3590 * SECOND) == one.id


def test_a_backoff_ends_at_its_time_while_the_clock_goes_on(ledger: Ledger) -> None:
    """A job in a backoff that is paused and resumed before its time waits for it, as long as no clock was set back."""
    one = wanted(1)
    ledger.submit(one, now=NOW, actor="person:test")
    fail(ledger)
    for word in (events.Pause(), events.Resume()):
        ledger.tell(one.id, word, now=NOW + SECOND // 2, actor="person:test")
    assert claimed(ledger, NOW + SECOND // 2) is None
    assert claimed(ledger, NOW + SECOND) == one.id
