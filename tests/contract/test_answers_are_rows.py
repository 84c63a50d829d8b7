"""What the ledger answers about a job is what stands in its row, although it is not read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import Token
from perenne.core.publication import Published
from perenne.core.retry import Backoff

_ERROR = events.Raised("no room", True, Backoff())
ENDINGS: dict[str, Callable[[Any, Token], Any]] = {
    "returned": lambda room, token: room.end(token, events.Returned(b"7")),
    "published": lambda room, token: room.end(token, published=Published.coherent(b"8")),
    "raised": lambda room, token: room.end(token, _ERROR),
    "snoozed": lambda room, token: room.end(token, events.Snoozed(3.0)),
    "gave up": lambda room, token: room.end(token, events.GaveUp("never")),
    "doubted": lambda room, token: room.end(token, events.Doubted("two results")),
    "missing": lambda room, token: room.end(token, events.Missing("no tool")),
    "overrun": lambda room, token: room.end(token, overrun="12 of 10 tokens"),
    "limit used": lambda room, token: room.end(token, limit_used=True),
    "suspended": lambda room, token: room.end(token, events.Stopped("suspend")),
    "paused": lambda room, token: room.end(token, events.Stopped("pause")),
    "interrupted": lambda room, token: room.settle(token),
    "found published": lambda room, token: room.settle(token, Published.coherent(b"9")),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("asked", [None, events.Pause(), events.Cancel()], ids=["nothing", "pause", "cancel"])
def test_an_answer_is_the_row(room: Any, ending: str, asked: events.Event | None) -> None:
    """A claim and every ending, whatever was asked, answer each column as it stands then."""
    room.submit(priority=3, active_limit_ms=5_000)
    failed = room.claim()
    room.ledger.progress(failed.token, 1, 2, "half", now=room.now)
    room.end(failed.token, _ERROR)
    room.later(1_000)
    claim = room.claim()
    assert claim.job == room.job(claim.job.id)
    assert (claim.job.number, claim.job.failures) == (2, 1)
    room.ledger.progress(claim.token, 3, 4, "nearly", now=room.now)
    if asked is not None:
        room.tell(claim.job.id, asked)
    room.later(1)
    answered = ENDINGS[ending](room, claim.token)
    assert answered == [room.job(claim.job.id)]
