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


@pytest.mark.parametrize(
    ("before", "verb", "to", "reason", "spends"),
    [
        ({"interruptions": 0, "spent": 3}, "requeue_interrupted", "QUEUED", "interrupted_before_publish", False),
        ({"interruptions": 1, "spent": 1}, "bury", "DEAD", "interruptions_exhausted", True),
        ({"interruptions": 1, "pause_asked": True}, "pause", "PAUSED", "paused_after_worker_death", False),
        ({"interruptions": 1, "cancel_asked": True}, "cancel", "CANCELLED", "cancelled_after_worker_death", True),
    ],
)
def test_a_bound_of_its_own(
    make_job: Callable[..., Job], now: int, before: dict[str, int], verb: str, to: str, reason: str, spends: bool
) -> None:
    """E-S3: a job with a bound of interruptions is buried by the last of them and spends no attempt on the others."""
    change = settled(make_job(max_interruptions=2, **before), ABSENT, now)
    assert (change.verb, change.to, change.reason, change.spends) == (verb, to, reason, spends)


@pytest.mark.parametrize(
    ("facts", "alone"),
    [
        ({"spent": 2}, False),
        ({"spent": 1, "interruptions": 1}, False),
        ({"spent": 2, "interruptions": 1}, True),
        ({"spent": 0, "interruptions": 1, "max_interruptions": 3}, False),
        ({"spent": 0, "interruptions": 2, "max_interruptions": 3}, True),
        ({"spent": 2, "interruptions": 1, "max_interruptions": 3}, False),
        ({"spent": 0, "max_interruptions": 1}, False),
    ],
)
def test_who_runs_alone(make_job: Callable[..., Job], facts: dict[str, int], alone: bool) -> None:
    """Alone runs who was interrupted and has nothing left after the next time; so it does while that attempt runs."""
    assert make_job(JobState.QUEUED, **facts).runs_alone is alone
    running = {**facts, "spent": facts["spent"] + 1} if "spent" in facts else facts
    assert make_job(JobState.RUNNING, **running).runs_alone is alone
