"""E-S2 line by line: what the end of an attempt means, and which of several facts counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest

from perenne.core import events, limits
from perenne.core.decide import Change, decide
from perenne.core.job import Job, Outcome
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState

MakeJob = Callable[..., Job]
ABSENT = Published.absent()
BACKOFF = Backoff(base_s=4.0, cap_s=10.0)


class Expected(NamedTuple):
    """What stands in the row and in its attempt afterwards."""

    verb: str
    to: str
    reason: str
    outcome: str
    spends: bool


ANSWERS: dict[str, tuple[events.Answer, Expected]] = {
    "returned": (events.Returned(b"1"), Expected("complete", "COMPLETED", "completed", "completed", True)),
    "retryable": (
        events.Raised("boom", True, BACKOFF),
        Expected("retry", "RETRY_WAIT", "error", "failed", True),
    ),
    "permanent": (
        events.Raised("boom", False, BACKOFF),
        Expected("fail", "FAILED", "permanent_error", "failed", True),
    ),
    "snoozed": (events.Snoozed(5.0, "later"), Expected("snooze", "RETRY_WAIT", "later", "snoozed", False)),
    "gave up": (events.GaveUp("never"), Expected("fail", "FAILED", "gave_up", "failed", True)),
    "doubted": (
        events.Doubted("who knows"),
        Expected("doubt", "RECOVERY_REQUIRED", "publication_in_doubt", "doubted", True),
    ),
    "missing": (events.Missing("no tool"), Expected("block", "BLOCKED", "tool_missing", "blocked", False)),
    "quota": (events.Stopped("quota"), Expected("quota", "PAUSED_QUOTA", "budget_spent", "quota", False)),
    "suspend": (events.Stopped("suspend"), Expected("suspend", "QUEUED", "suspended", "suspended", False)),
    "pause": (events.Stopped("pause"), Expected("pause", "PAUSED", "paused_at_boundary", "paused", False)),
}
# Lines 2 to 6, in the order of the specification; what stands above wins.
LINES: dict[str, Expected] = {
    "coherent": Expected("complete", "COMPLETED", "published", "completed", True),
    "incoherent": Expected("doubt", "RECOVERY_REQUIRED", "publication_in_doubt", "doubted", True),
    "unknown": Expected("doubt", "RECOVERY_REQUIRED", "publication_in_doubt", "doubted", True),
    "overrun": Expected("bury", "DEAD", "budget_overrun", "failed", True),
    "cancel": Expected("cancel", "CANCELLED", "cancelled_at_boundary", "cancelled", True),
    "limit": Expected("block", "BLOCKED", "active_time_limit", "blocked", True),
}


def circumstances() -> list[tuple[str, ...]]:
    """Every set of lines 2 to 6 that can hold at once: one answer of the lookup, and any of the other three."""
    lookups: list[tuple[str, ...]] = [(), ("coherent",), ("incoherent",), ("unknown",)]
    beside = [facts for size in range(4) for facts in itertools.combinations(("overrun", "cancel", "limit"), size)]
    return [lookup + facts for lookup in lookups for facts in beside]


def ended(answer: events.Answer, facts: tuple[str, ...]) -> events.Ended:
    found = {"coherent": Published.coherent(b"2"), "incoherent": Published.incoherent("other bytes")}
    found["unknown"] = Published("unknown", "catalogue locked")
    return events.Ended(
        answer=answer,
        published=next((found[fact] for fact in facts if fact in found), ABSENT),
        limit_used="limit" in facts,
        overrun="12 of 10 tokens" if "overrun" in facts else None,
    )


def after(job: Job, event: events.Event, now: int, luck: float = 0.5) -> Change:
    change = decide(job, event, now, luck)
    assert isinstance(change, Change)
    return change


def seen(change: Change) -> Expected:
    return Expected(change.verb, str(change.to), change.reason, str(change.outcome), change.spends)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("facts", circumstances(), ids=lambda facts: "+".join(facts) or "nothing")
def test_the_first_line_that_holds_decides(make_job: MakeJob, now: int, answer: str, facts: tuple[str, ...]) -> None:
    """Published beats doubt beats overrun beats cancel beats the time limit beats whatever the handler answered."""
    given, otherwise = ANSWERS[answer]
    job = make_job(cancel_asked="cancel" in facts, pause_asked=answer == "pause")
    expected = next((LINES[line] for line in LINES if line in facts), otherwise)
    if answer == "missing" and expected is LINES["coherent"]:
        expected = Expected("complete", "COMPLETED", "published_before_start", "completed", False)
    assert seen(after(job, ended(given, facts), now)) == expected


def test_what_came_with_a_publication_stays_visible(make_job: MakeJob, now: int) -> None:
    """COMPLETED is a fact; the cancel, the time limit, the overrun and the error beside it stand in the diagnostic."""
    change = after(
        make_job(cancel_asked=True),
        ended(events.Raised("boom", True, BACKOFF), ("coherent", "overrun", "cancel", "limit")),
        now,
    )
    assert change.to is JobState.COMPLETED
    for word in ("cancel", "time", "12 of 10 tokens", "boom"):
        assert word in (change.diagnostic or "")


@pytest.mark.parametrize("answer", [events.GaveUp("never again"), events.Doubted("never again")])
def test_an_answer_against_a_publication_stays_visible(make_job: MakeJob, now: int, answer: events.Answer) -> None:
    """A handler that published and then gave up or doubted completes its job, and its words are kept."""
    change = after(make_job(), ended(answer, ("coherent",)), now)
    assert (change.to, change.diagnostic) == (JobState.COMPLETED, "never again")


def test_a_completion_without_remarks_has_no_diagnostic(make_job: MakeJob, now: int) -> None:
    """A plain success leaves no diagnostic, published or not."""
    for facts in ((), ("coherent",)):
        assert after(make_job(), ended(events.Returned(b"1"), facts), now).diagnostic is None


@pytest.mark.parametrize(
    ("answer", "result"),
    [(events.Returned(b"1"), b"1"), (events.NotCalled(), b"2"), (events.Raised("boom", True, BACKOFF), b"2")],
)
def test_the_result_is_the_handlers_or_the_lookups(
    make_job: MakeJob, now: int, answer: events.Answer, result: bytes
) -> None:
    """The handler's result is kept if it returned one; else what the lookup found."""
    assert after(make_job(), ended(answer, ("coherent",)), now).result == result


def test_a_publication_found_before_the_start_spends_no_attempt(make_job: MakeJob, now: int) -> None:
    """E-P1: a job whose result is already there completes, and the handler that did not run does not count."""
    change = after(make_job(), ended(events.NotCalled(), ("coherent",)), now)
    assert seen(change) == Expected("complete", "COMPLETED", "published_before_start", "completed", False)


@pytest.mark.parametrize(
    ("spent", "verb", "reason"),
    [(1, "retry", "error"), (2, "retry", "error"), (3, "fail", "attempts_exhausted")],
)
def test_a_retryable_error_ends_with_the_attempts(
    make_job: MakeJob, now: int, spent: int, verb: str, reason: str
) -> None:
    """While attempts are left the job waits for the next; the last one fails it."""
    change = after(make_job(spent=spent), ended(events.Raised("boom", True, BACKOFF), ()), now)
    assert (change.verb, change.reason, change.diagnostic) == (verb, reason, "boom")


@pytest.mark.parametrize(("failures", "most_s"), [(0, 4.0), (1, 8.0), (2, 10.0), (99, 10.0)])
def test_backoff_grows_to_its_cap(make_job: MakeJob, now: int, failures: int, most_s: float) -> None:
    """The n-th failure waits a random part of base × 2ⁿ⁻¹ s, never above the cap, never into the past."""
    job, event = make_job(failures=failures), ended(events.Raised("boom", True, BACKOFF), ())
    waits = [(after(job, event, now, luck).due_at or 0) - now for luck in (0.0, 0.5, 0.999)]
    assert waits == [0, int(most_s * 0.5e6), int(most_s * 0.999e6)]


@pytest.mark.parametrize(
    ("seconds", "wait_s"),
    [(5.0, 5.0), (1.0, 1.0), (0.2, 1.0), (0.0, 1.0), (-7.0, 1.0), (float("-inf"), 1.0), (float("nan"), 1.0)],
)
def test_a_snooze_lasts_at_least_a_second(make_job: MakeJob, now: int, seconds: float, wait_s: float) -> None:
    """A snooze below 1 s, or of no length at all, lasts 1 s, so that a handler cannot spin."""
    change = after(make_job(), ended(events.Snoozed(seconds), ()), now)
    assert (change.due_at or 0) - now == int(wait_s * 1e6)


@pytest.mark.parametrize("seconds", [1e12, 1e300, float("inf")])
def test_a_snooze_never_loses_the_acknowledgement(make_job: MakeJob, now: int, seconds: float) -> None:
    """A snooze beyond any calendar is cut to the longest wait, which the ledger can store."""
    change = after(make_job(), ended(events.Snoozed(seconds), ()), now)
    assert (change.due_at or 0) - now == int(limits.WAIT_MOST_S * 1e6) < 2**62


@pytest.mark.parametrize("why", ["cancel", "limit", "pause", "stale", "suspend"])
def test_a_wish_that_was_taken_back_suspends(make_job: MakeJob, now: int, why: str) -> None:
    """A frame unwound for a wish that no longer holds goes back to the queue: a resume that came last wins."""
    change = after(make_job(), ended(events.Stopped(why), ()), now)
    assert (change.verb, change.to, change.outcome) == ("suspend", JobState.QUEUED, Outcome.SUSPENDED)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("words", ["\udcff\x00\x1b[31m", "é" * 5000])
def test_words_of_a_handler_are_bounded_and_clean(make_job: MakeJob, now: int, answer: str, words: str) -> None:
    """E-F4: whatever a handler says fits in 2 KiB of clean UTF-8, in the reason and in the diagnostic."""
    said = {
        "snoozed": events.Snoozed(5.0, words),
        "gave up": events.GaveUp(words),
        "doubted": events.Doubted(words),
        "missing": events.Missing(words),
        "retryable": events.Raised(words, True, BACKOFF),
        "permanent": events.Raised(words, False, BACKOFF),
    }.get(answer, ANSWERS[answer][0])
    change = after(make_job(pause_asked=answer == "pause"), ended(said, ()), now)
    for text in (change.reason, change.diagnostic or ""):
        assert len(text.encode()) <= 2048
        assert "\x00" not in text


@pytest.mark.parametrize(
    "answer", [events.GaveUp(""), events.Raised("", False, BACKOFF), events.Snoozed(5.0, ""), events.Doubted("")]
)
def test_nobody_meets_an_empty_reason(make_job: MakeJob, now: int, answer: events.Answer) -> None:
    """An ending that brought no words of its own still has a reason and a diagnostic."""
    change = after(make_job(), ended(answer, ()), now)
    assert change.reason.strip()
    assert (change.diagnostic or "").strip()
