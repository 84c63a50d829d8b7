"""Properties of the rules over any job and any event."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perenne.core import events, limits
from perenne.core.decide import Change, decide
from perenne.core.job import Job
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import FINAL, TRANSITIONS, JobState, Spends
from perenne.errors import AlreadyFinished, NotAllowed

MakeJob = Callable[..., Job]
TEXT = st.text(st.characters(exclude_categories=[]), max_size=20)
WRITTEN = st.sampled_from(["why", "because"])
BACKOFFS = st.builds(Backoff, base_s=st.floats(0.01, 10), cap_s=st.floats(10, 1000))
PUBLISHED = st.builds(Published, st.sampled_from(["absent", "coherent", "incoherent", "unknown"]), TEXT)
# NotCalled is answered only when something is published.
ANSWERS = st.one_of(
    st.builds(events.Returned, st.none() | st.binary(max_size=3)),
    st.builds(events.Raised, TEXT, st.booleans(), BACKOFFS),
    st.builds(events.Snoozed, st.floats(), TEXT),
    st.builds(events.GaveUp, TEXT),
    st.builds(events.Doubted, TEXT),
    st.builds(events.Stopped, st.sampled_from(["cancel", "limit", "quota", "suspend", "pause"])),
    st.builds(events.Missing, TEXT),
)
REPORTS = st.one_of(
    st.builds(
        events.Ended, answer=ANSWERS, published=PUBLISHED, limit_used=st.booleans(), overrun=st.none() | st.just("x")
    ),
    st.builds(events.Interrupted, PUBLISHED),
)
WORDS = st.one_of(
    st.builds(events.Release, WRITTEN),
    st.builds(events.FailDependency, TEXT),
    st.builds(events.Block, WRITTEN, st.none() | TEXT),
    st.builds(events.Reject, TEXT),
    st.builds(events.LackBudget, TEXT),
    st.just(events.Claim()),
    st.builds(events.Cancel, WRITTEN),
    st.builds(events.Pause, WRITTEN),
    st.builds(events.Resume, WRITTEN),
    st.builds(events.Resolve, st.sampled_from(JobState), WRITTEN),
    st.builds(events.Requeue, WRITTEN, st.integers(0, 3)),
)
FIELDS = st.fixed_dictionaries(
    {
        "max_attempts": st.integers(3, 100),
        "spent": st.integers(1, 3),
        "failures": st.integers(0, 200),
        "unmet": st.integers(0, 3),
        "due_at": st.sampled_from([0, 1, 2**60]),
        "cancel_asked": st.booleans(),
        "pause_asked": st.booleans(),
    }
)
LUCK = st.floats(0, 1, exclude_max=True)


@given(st.sampled_from(sorted(FINAL)), FIELDS, REPORTS, LUCK)
def test_nothing_a_worker_says_changes_a_finished_job(
    make_job: MakeJob, now: int, state: JobState, fields: dict[str, int], report: events.Event, luck: float
) -> None:
    """P2: every report about a job that has ended is refused."""
    try:
        decide(make_job(state, **fields), report, now, luck)
    except AlreadyFinished:
        return
    raise AssertionError(f"{report} was taken for a {state} job")


@given(FIELDS, REPORTS, LUCK)
def test_every_report_about_a_running_job_ends_its_attempt(
    make_job: MakeJob, now: int, fields: dict[str, int], report: events.Event, luck: float
) -> None:
    """Whatever happened in an attempt there is one ending for it: an acknowledgement is never lost to the rules."""
    change = decide(make_job(**fields), report, now, luck)
    assert isinstance(change, Change)
    assert change.outcome is not None
    assert change.to is not JobState.RUNNING


@given(st.sampled_from(JobState), FIELDS, REPORTS | WORDS, LUCK)
def test_no_change_is_outside_the_table(
    make_job: MakeJob, now: int, state: JobState, fields: dict[str, int], event: events.Event, luck: float
) -> None:
    """Each change is a row of the table, counts its attempt as that row says, and can be stored as it stands."""
    try:
        change = decide(make_job(state, **fields), event, now, luck)
    except (NotAllowed, AlreadyFinished):
        return
    if not isinstance(change, Change):
        assert state is JobState.RUNNING
        return
    spends = TRANSITIONS[(state, change.verb, change.to)]
    assert spends is Spends.EITHER or change.spends == (spends is Spends.YES)
    assert (change.outcome is not None) == (state is JobState.RUNNING)
    assert change.due_at is None or 0 <= change.due_at < 2**62
    for text in (change.reason, change.diagnostic or ""):
        assert limits.clip(text) == text


@given(FIELDS, REPORTS, LUCK)
def test_the_same_facts_give_the_same_change(
    make_job: MakeJob, now: int, fields: dict[str, int], report: events.Event, luck: float
) -> None:
    """The rules have no clock, no luck and no memory of their own."""
    job = make_job(**fields)
    before = msgspec.structs.asdict(job)
    assert decide(job, report, now, luck) == decide(job, report, now, luck)
    assert msgspec.structs.asdict(job) == before


@given(st.lists(REPORTS, min_size=1, max_size=120), LUCK)
def test_every_path_of_attempts_can_end(make_job: MakeJob, now: int, reports: list[events.Event], luck: float) -> None:
    """However its attempts end, a job is finished, waits for a person or the world, or has an attempt left to spend."""
    job, spent = make_job(), 1
    for report in reports:
        change = decide(job, report, now, luck)
        assert isinstance(change, Change)
        spent = spent if change.spends else spent - 1
        if change.to in (JobState.QUEUED, JobState.RETRY_WAIT):
            assert spent < job.max_attempts
            waiting = make_job(change.to, spent=spent)
            assert decide(waiting, events.Claim(), now) != decide(waiting, events.Cancel(), now)
        elif change.to is not JobState.PAUSED:
            return
        spent = min(spent, job.max_attempts - 1) + 1
        job = make_job(spent=spent, number=job.number + 1)
    assert spent <= job.max_attempts
