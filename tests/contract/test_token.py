"""P2: an attempt writes only under its whole token, and the statement that writes is the guard."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from perenne.core import events
from perenne.core.job import Token
from perenne.core.publication import Published
from perenne.core.states import JobState
from perenne.errors import StaleToken
from perenne.store.ledger import Ledger

S = JobState
WRITES: dict[str, Callable[[Any, Token], Any]] = {
    "end": lambda room, token: room.end(token),
    "end as published": lambda room, token: room.end(token, published=Published.coherent(b"7")),
    "settle": lambda room, token: room.settle(token),
    "progress": lambda room, token: room.ledger.progress(token, 1, 2, "half", now=room.now),
    "check": lambda room, token: room.ledger.check(token),
    "submit a child": lambda room, token: room.ledger.submit_many(
        [room.wanted(parent=token.job_id)], now=room.now, actor=f"job:{token.job_id}", token=token
    ),
}


def wrong_tokens(room: Any, right: Token) -> dict[str, Token]:
    """Tokens of which one part alone is not the current one."""
    other = room.running()
    change = msgspec.structs.replace
    return {
        "attempt": change(right, attempt=other.attempt),
        "an attempt that never was": change(right, attempt="f" * 32),
        "number before": change(right, number=right.number - 1),
        "number after": change(right, number=right.number + 1),
        "epoch before": change(right, epoch=right.epoch - 1),
        "epoch after": change(right, epoch=right.epoch + 1),
        "job": change(right, job_id=other.job_id),
    }


@pytest.mark.parametrize("write", WRITES)
def test_each_part_of_the_token_counts(room: Any, write: str) -> None:
    """With the attempt, number, epoch or job of another nothing is written; the right token still writes."""
    right = room.running()
    for name, wrong in wrong_tokens(room, right).items():
        before = room.house.tables()
        with pytest.raises(StaleToken) as stale:
            WRITES[write](room, wrong)
        assert room.house.tables() == before, name
        assert (stale.value.job_id, stale.value.given) == (wrong.job_id, wrong.attempt)
    WRITES[write](room, right)


@pytest.mark.parametrize("write", WRITES)
def test_a_raised_epoch_fences_every_attempt(room: Any, write: str) -> None:
    """After a restore, which raises the epoch, the attempts from before write nothing."""
    token = room.running()
    room.house.raise_epoch()
    before = room.house.tables()
    with pytest.raises(StaleToken):
        WRITES[write](room, token)
    assert room.house.tables() == before


@pytest.mark.parametrize("write", WRITES)
def test_a_superseded_attempt_writes_nothing(room: Any, write: str) -> None:
    """Once recovery gave the job to another attempt, the first one is late, and the second is not disturbed."""
    first = room.running()
    room.settle(first)
    room.bring(first.job_id, S.RUNNING)
    before = room.house.tables()
    with pytest.raises(StaleToken):
        WRITES[write](room, first)
    assert room.house.tables() == before
    second = room.token(first.job_id)
    assert (second.number, second.job_id) == (first.number + 1, first.job_id)
    room.end(second)
    assert room.state(first.job_id) is S.COMPLETED


def test_an_end_is_told_once(room: Any) -> None:
    """The same report again is late: the first one is the record, and attempt, count and history keep one end."""
    token = room.running()
    room.end(token, events.Returned(b"1"))
    before = room.house.tables()
    for answer in (events.Returned(b"1"), events.Returned(b"2"), room.ERROR):
        with pytest.raises(StaleToken):
            room.end(token, answer)
    assert room.house.tables() == before


ENDING = {
    "to_state": "COMPLETED",
    "reason": "completed",
    "due_at": 0,
    "spent": 1,
    "failed": 0,
    "interrupted": 0,
    "active_ms": 0,
    "result": None,
    "diagnostic": None,
    "finished_at": 1,
    "now": 1,
}


@pytest.mark.parametrize("part", ["seq", "attempt", "number", "epoch"])
def test_the_ending_statement_is_the_guard(room: Any, part: str) -> None:
    """Not only the code before it: the statement that ends an attempt itself touches no row of another token."""
    token = room.running()
    job = room.job(token.job_id)
    right = {"seq": job.seq, "attempt": token.attempt, "number": token.number, "epoch": token.epoch, **ENDING}
    wrong = {**right, part: "f" * 32 if part == "attempt" else right[part] + 1}
    before = room.house.tables()
    assert room.driver.write(lambda tx: tx.run("end_attempt", **wrong)) == 0
    assert room.house.tables() == before
    assert room.driver.write(lambda tx: tx.run("end_attempt", **right)) == 1


@pytest.mark.parametrize("state", [state for state in JobState if state is not S.RUNNING])
def test_the_ending_statement_ends_only_a_running_job(room: Any, state: S) -> None:
    """The statement that ends an attempt touches no row of a job that is not RUNNING, whatever the token."""
    job = room.job(room.in_state(state))
    token = room.token(job.id)
    given = {"seq": job.seq, "attempt": token.attempt, "number": job.number, "epoch": 1, **ENDING}
    assert room.driver.write(lambda tx: tx.run("end_attempt", **given)) == 0


@pytest.mark.parametrize("part", ["seq", "from_state", "revision"])
def test_the_statements_that_move_are_guards(room: Any, part: str) -> None:
    """A claim and a move write only a row that still stands as it was read."""
    job = room.job(room.submit().job_id)
    right = {"seq": job.seq, "from_state": job.state, "revision": job.revision}
    wrong = {**right, part: "BLOCKED" if part == "from_state" else right[part] + 1}
    claim = {"attempt": "f" * 32, "now": 1}
    kept = msgspec.structs.asdict(job)
    change = {
        **{name: kept[name] for name in ("reason", "due_at", "spent", "failures", "interruptions", "unmet")},
        **{name: kept[name] for name in ("cancel_asked", "active_ms", "active_limit_ms", "diagnostic")},
        "to_state": "PAUSED",
        "finished_at": None,
        "now": 1,
    }
    before = room.house.tables()
    assert room.driver.write(lambda tx: tx.run("start_attempt", **wrong, **claim)) == 0
    assert room.driver.write(lambda tx: tx.run("move_job", **wrong, **change)) == 0
    assert room.house.tables() == before


def test_a_claim_spends_no_attempt_that_is_not_there(room: Any) -> None:
    """The statement that claims refuses a job that has no attempt left, whatever was read before."""
    job = room.job(room.in_state(S.FAILED, max_attempts=1))
    assert job.spent == job.max_attempts
    given = {"seq": job.seq, "from_state": "FAILED", "revision": job.revision, "attempt": "f" * 32, "now": 1}
    assert room.driver.write(lambda tx: tx.run("start_attempt", **given)) == 0


def test_a_job_is_claimed_once(room: Any) -> None:
    """Eight claimers on two connections take 60 jobs: each job once, each attempt its own."""
    ids = [room.submit().job_id for _ in range(60)]
    beside = room.house.open()
    ledgers = [room.ledger, Ledger(beside)]

    def claim_all(ledger: Ledger) -> list[str]:
        claimed = []
        while (claim := ledger.claim([room.LANE], owner=room.OWNER, attempt=room.id(), now=room.now)) is not None:
            claimed.append(claim.job.id)
        return claimed

    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(claim_all, [ledgers[n % 2] for n in range(8)]))
    finally:
        beside.close()
    assert sorted(job_id for claimed in found for job_id in claimed) == sorted(ids)
    assert room.reader.counts() == {S.RUNNING: 60}
