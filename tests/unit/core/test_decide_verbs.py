"""What people and the engine say about a job, verb by verb, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perenne.core import events
from perenne.core.decide import Ask, Change, decide
from perenne.core.job import Job
from perenne.core.publication import Published
from perenne.core.states import FINAL, JobState
from perenne.errors import AlreadyFinished, EngineError, InvalidInput, NotAllowed, TooLarge

MakeJob = Callable[..., Job]
S = JobState
SPOKEN: dict[str, events.Event] = {
    "release": events.Release("go on"),
    "fail": events.FailDependency("01998d3b-0000-7000-8000-000000000002"),
    "block": events.Block("tool_missing"),
    "reject": events.Reject("needs 900 GiB"),
    "quota": events.LackBudget("3 tokens missing"),
    "claim": events.Claim(),
    "cancel": events.Cancel("not needed"),
    "pause": events.Pause("later"),
    "resume": events.Resume("now"),
    "resolve": events.Resolve(S.QUEUED, "looked at it"),
    "requeue": events.Requeue("once more"),
}
# Typed by hand from section 3; RUNNING is asked, not moved, by cancel, pause and resume.
ALLOWED = {
    "release": {S.BLOCKED},
    "fail": {S.BLOCKED},
    "block": {S.QUEUED, S.RETRY_WAIT},
    "reject": {S.QUEUED, S.RETRY_WAIT},
    "quota": {S.QUEUED, S.RETRY_WAIT},
    "claim": {S.QUEUED, S.RETRY_WAIT},
    "cancel": {S.QUEUED, S.RETRY_WAIT, S.BLOCKED, S.PAUSED, S.PAUSED_QUOTA},
    "pause": {S.QUEUED, S.RETRY_WAIT, S.BLOCKED},
    "resume": {S.PAUSED, S.PAUSED_QUOTA},
    "resolve": {S.RECOVERY_REQUIRED},
    "requeue": {S.FAILED, S.CANCELLED, S.DEAD},
}
ASKED_WHILE_RUNNING = {"cancel", "pause", "resume"}


def change_of(job: Job | None, event: events.Event, now: int) -> Change:
    change = decide(job, event, now)
    assert isinstance(change, Change)
    return change


@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize("verb", SPOKEN)
def test_a_verb_moves_where_the_table_says_or_is_refused(make_job: MakeJob, now: int, verb: str, state: S) -> None:
    """Each verb is allowed in its states alone; elsewhere the error says whether it is too late or not yet."""
    job = make_job(state)
    if state is S.RUNNING and verb in ASKED_WHILE_RUNNING:
        assert isinstance(decide(job, SPOKEN[verb], now), Ask)
    elif state in ALLOWED[verb]:
        change = change_of(job, SPOKEN[verb], now)
        assert (change.verb, change.outcome, change.spends) == (verb, None, False)
    else:
        with pytest.raises(AlreadyFinished if state in FINAL else NotAllowed) as refused:
            decide(job, SPOKEN[verb], now)
        assert (refused.value.job_id, refused.value.state, refused.value.verb) == (job.id, state, verb)


@pytest.mark.parametrize("state", [state for state in JobState if state is not S.RUNNING])
@pytest.mark.parametrize(
    "answer",
    [
        events.Returned(b"1"),
        events.GaveUp("never"),
        events.Doubted("who knows"),
        events.Missing("no tool"),
        events.Stopped("pause"),
        events.Stopped("quota"),
        events.Stopped("suspend"),
    ],
)
def test_an_ending_is_of_a_running_job_only(make_job: MakeJob, now: int, state: S, answer: events.Answer) -> None:
    """No report of an attempt moves a job that is not running, not even by a verb that its state allows."""
    job = make_job(state, pause_asked=True)
    for limit_used in (False, True):
        event = events.Ended(answer=answer, published=Published.absent(), limit_used=limit_used)
        with pytest.raises((NotAllowed, AlreadyFinished)):
            decide(job, event, now)
    with pytest.raises((NotAllowed, AlreadyFinished)):
        decide(job, events.Interrupted(Published.absent()), now)


def test_the_wishes_of_a_running_job_add_up(make_job: MakeJob, now: int) -> None:
    """Cancel and pause are noted beside each other; resume takes back the pause, and a cancel stays."""
    assert decide(make_job(pause_asked=True), events.Cancel("x"), now) == Ask(cancel=True, pause=True, reason="x")
    assert decide(make_job(cancel_asked=True), events.Pause("x"), now) == Ask(cancel=True, pause=True, reason="x")
    both = make_job(cancel_asked=True, pause_asked=True)
    assert decide(both, events.Resume("x"), now) == Ask(cancel=True, pause=False, reason="x")


@pytest.mark.parametrize(("unmet", "to"), [(0, S.QUEUED), (2, S.BLOCKED)])
def test_a_job_is_born_waiting_for_its_dependencies(make_job: MakeJob, now: int, unmet: int, to: S) -> None:
    """A submit or requeue is QUEUED when nothing is missing, BLOCKED when a dependency is."""
    assert change_of(None, events.Submit(unmet), now).to is to
    assert change_of(make_job(S.DEAD), events.Requeue("once more", unmet), now).to is to


@pytest.mark.parametrize(
    ("state", "fields", "to"),
    [
        (S.PAUSED, {}, S.QUEUED),
        (S.PAUSED, {"due_at": 1}, S.QUEUED),
        (S.PAUSED, {"due_at": 2**60}, S.RETRY_WAIT),
        (S.PAUSED, {"unmet": 1}, S.BLOCKED),
        (S.PAUSED, {"unmet": 1, "due_at": 2**60}, S.BLOCKED),
        (S.PAUSED_QUOTA, {}, S.QUEUED),
        (S.PAUSED_QUOTA, {"due_at": 2**60}, S.QUEUED),
        (S.PAUSED_QUOTA, {"unmet": 1}, S.BLOCKED),
    ],
)
def test_resume_leads_where_the_job_would_be(
    make_job: MakeJob, now: int, state: S, fields: dict[str, int], to: S
) -> None:
    """A missing dependency comes first, then a time that has not come, then the queue."""
    assert change_of(make_job(state, **fields), events.Resume(), now).to is to


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (S.QUEUED, events.Pause()),
        (S.BLOCKED, events.Pause()),
        (S.BLOCKED, events.Release("dependencies_completed")),
        (S.PAUSED, events.Resume()),
        (S.PAUSED_QUOTA, events.Resume()),
        (S.QUEUED, events.Block("dependency_requeued")),
        (S.QUEUED, events.LackBudget("3 tokens missing")),
        (S.FAILED, events.Requeue("once more")),
    ],
)
def test_a_time_that_has_not_come_is_kept(make_job: MakeJob, now: int, state: S, event: events.Event) -> None:
    """E-Q6: not before its time, whatever happens to the job while it waits."""
    due_at = now + 3_600_000_000
    assert change_of(make_job(state, due_at=due_at), event, now).due_at in (None, due_at)


@pytest.mark.parametrize("unmet", [0, 1])
@pytest.mark.parametrize("state", [S.FAILED, S.CANCELLED, S.DEAD])
def test_a_requeue_does_not_wait_for_an_old_backoff(make_job: MakeJob, now: int, state: S, unmet: int) -> None:
    """What a retry or a snooze still had to wait is gone with the end of the job; a time given at submit is kept."""
    due_at, event = now + 3_600_000_000, events.Requeue("once more", unmet)
    assert change_of(make_job(state, due_at=due_at, number=1), event, now).due_at == 0
    assert change_of(make_job(state, due_at=due_at, number=0), event, now).due_at in (None, due_at)


def test_a_claim_is_not_before_its_time(make_job: MakeJob, now: int) -> None:
    """A job is claimed when its time has come, at the earliest at that instant."""
    for due_at in (0, now):
        assert change_of(make_job(S.RETRY_WAIT, due_at=due_at), events.Claim(), now).to is S.RUNNING
    with pytest.raises(NotAllowed, match="due"):
        decide(make_job(S.QUEUED, due_at=now + 1), events.Claim(), now)


@pytest.mark.parametrize("to", list(JobState))
def test_a_person_resolves_to_one_of_three_states(make_job: MakeJob, now: int, to: S) -> None:
    """A job in doubt becomes COMPLETED, QUEUED or FAILED, and nothing else."""
    job, event = make_job(S.RECOVERY_REQUIRED), events.Resolve(to, "looked at it")
    if to in {S.COMPLETED, S.QUEUED, S.FAILED}:
        assert (change_of(job, event, now).to, change_of(job, event, now).reason) == (to, "looked at it")
    else:
        with pytest.raises(NotAllowed):
            decide(job, event, now)


PERSONAL = {
    "release": (S.BLOCKED, events.Release),
    "requeue": (S.FAILED, events.Requeue),
    "cancel": (S.QUEUED, events.Cancel),
    "ask cancel": (S.RUNNING, events.Cancel),
    "pause": (S.QUEUED, events.Pause),
    "resume": (S.PAUSED, events.Resume),
    "resolve": (S.RECOVERY_REQUIRED, lambda reason: events.Resolve(S.FAILED, reason)),
}


@pytest.mark.parametrize("verb", PERSONAL)
def test_a_reason_is_written_bounded_and_clean(make_job: MakeJob, now: int, verb: str) -> None:
    """A person's reason is refused when empty or above 2 KiB, and stored without control characters."""
    state, event = PERSONAL[verb]
    for empty in ("", " \n"):
        with pytest.raises(InvalidInput, match="reason"):
            decide(make_job(state), event(empty), now)
    with pytest.raises(TooLarge, match="2048"):
        decide(make_job(state), event("é" * 1025), now)
    kept = decide(make_job(state), event("é" * 1024), now)
    assert kept.reason == "é" * 1024
    assert decide(make_job(state), event("\x1b[31m\udcff"), now).reason == "\ufffd[31m\ufffd"


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (S.QUEUED, events.Block("tool_missing", "é" * 5000 + "\udcff")),
        (S.QUEUED, events.Block("é" * 5000)),
        (S.QUEUED, events.Reject("é" * 5000)),
        (S.QUEUED, events.LackBudget("é" * 5000)),
    ],
)
def test_a_sentence_of_the_engine_is_cut(make_job: MakeJob, now: int, state: S, event: events.Event) -> None:
    """What the engine says about a job is cut to 2 KiB, never a reason to lose the change."""
    change = change_of(make_job(state), event, now)
    assert max(len(change.reason.encode()), len((change.diagnostic or "").encode())) <= 2048


def test_an_unknown_event_is_a_fault_of_ours(make_job: MakeJob, now: int) -> None:
    """An event without a rule is never taken for another one."""
    with pytest.raises(NotImplementedError):
        decide(make_job(), events.Event(), now)
    assert not issubclass(NotImplementedError, EngineError)
