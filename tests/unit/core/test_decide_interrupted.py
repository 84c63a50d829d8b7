"""The table of section 6: what recovery makes of an attempt whose owner is proved dead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perenne.core import events
from perenne.core.decide import Change, decide
from perenne.core.job import Job, Outcome
from perenne.core.publication import Published
from perenne.core.states import JobState

COHERENT, ABSENT = Published.coherent(b"7"), Published.absent()
DOUBTFUL = [Published.incoherent("other bytes"), Published("unknown", "catalogue locked"), Published("unknown")]
ASKED = [
    {"cancel_asked": cancel, "pause_asked": pause, "spent": spent}
    for cancel in (False, True)
    for pause in (False, True)
    for spent in (1, 3)
]


def settled(job: Job, published: Published, now: int) -> Change:
    change = decide(job, events.Interrupted(published), now)
    assert isinstance(change, Change)
    return change


@pytest.mark.parametrize("asked", ASKED)
def test_a_coherent_publication_completes(make_job: Callable[..., Job], now: int, asked: dict[str, int]) -> None:
    """Published is done, whatever was asked meanwhile; no new attempt begins."""
    change = settled(make_job(**asked), COHERENT, now)
    assert (change.verb, change.to, change.reason) == ("complete", JobState.COMPLETED, "recovered_after_publish")
    assert (change.outcome, change.spends, change.result) == (Outcome.COMPLETED, True, b"7")


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("published", DOUBTFUL)
def test_a_doubtful_publication_waits_for_a_person(
    make_job: Callable[..., Job], now: int, asked: dict[str, int], published: Published
) -> None:
    """Incoherent or unreadable is never guessed: the job waits with the finding, whatever was asked."""
    change = settled(make_job(**asked), published, now)
    assert (change.verb, change.to, change.outcome) == ("doubt", JobState.RECOVERY_REQUIRED, Outcome.DOUBTED)
    assert change.spends
    assert change.diagnostic == (published.finding or "the publication could not be read")


@pytest.mark.parametrize(
    ("asked", "verb", "to", "reason", "outcome"),
    [
        ({"cancel_asked": True}, "cancel", "CANCELLED", "cancelled_after_worker_death", "cancelled"),
        ({"cancel_asked": True, "spent": 3}, "cancel", "CANCELLED", "cancelled_after_worker_death", "cancelled"),
        (
            {"cancel_asked": True, "pause_asked": True},
            "cancel",
            "CANCELLED",
            "cancelled_after_worker_death",
            "cancelled",
        ),
        ({"pause_asked": True}, "pause", "PAUSED", "paused_after_worker_death", "interrupted"),
        ({"pause_asked": True, "spent": 3}, "pause", "PAUSED", "paused_after_worker_death", "interrupted"),
        ({"spent": 2}, "requeue_interrupted", "QUEUED", "interrupted_before_publish", "interrupted"),
        ({"spent": 3}, "bury", "DEAD", "attempts_exhausted", "interrupted"),
    ],
)
def test_an_absent_publication(
    make_job: Callable[..., Job],
    now: int,
    asked: dict[str, int],
    verb: str,
    to: str,
    reason: str,
    outcome: str,
) -> None:
    """Nothing published: cancel before pause before another attempt before DEAD; the attempt counts each time."""
    change = settled(make_job(**asked), ABSENT, now)
    assert (change.verb, change.to, change.reason, change.outcome) == (verb, to, reason, outcome)
    assert change.spends
