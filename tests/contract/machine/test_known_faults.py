"""Faults that the machine found and that are not mended yet, each as the test that its mending makes pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from machine.site import NOW, OWNERS, Site
from perenne.core.job import Submission
from perenne.errors import InvalidInput
from perenne.store.ledger import Lane, Ledger


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    site = Site()
    yield site.one.ledger
    site.leave()


def wanted(number: int, *needs: str, key: str | None = None) -> Submission:
    id = f"00000000-0000-4000-8000-{number:012d}"
    return Submission(id=id, kind="mail", version=1, input=b"{}", queue="wide", key=key, dependencies=needs)


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
