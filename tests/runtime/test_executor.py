"""What one attempt comes to: looked up first, called once, looked up again where it must be, recorded in the end."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perenne import Backoff, Context, Doubt, GiveUp, JobState, Kind, Publication, Published, Snooze
from perenne.errors import DiskLow, StoreBusy, StoreFailed
from perenne.runtime import worker
from perenne.store.ledger import Ledger

Trial = Any
MakeKind = Callable[..., Kind]
S = JobState


def never(context: Context, input: object) -> None:
    raise AssertionError("the handler was called")


class Shelf:
    """Another store: what is published there, and who asked."""

    def __init__(self, published: bool = False) -> None:
        self.published, self.looked, self.cleaned = published, 0, 0

    def lookup(self, publication: Publication) -> Published:
        self.looked += 1
        return Published.coherent({"shelf": True}) if self.published else Published.absent()

    def discard(self, publication: Publication) -> None:
        self.cleaned += 1

    def put(self, publication: Publication) -> str:
        self.published = True
        return "put"


def outcomes(engine: Any, job_id: str) -> list[str]:
    return [str(attempt.outcome) for attempt in engine.attempts(job_id)]


def test_what_is_published_completes_without_running(trial: Trial, make_kind: MakeKind) -> None:
    """E-P1: a coherent publication completes the job unspent and without its handler, even when its tool is gone."""
    kind = make_kind(never, lookup=Shelf(published=True).lookup, missing=lambda: "the tool is not installed")
    job = trial.run(kind)
    assert (job.state, job.reason, job.spent, job.result) == (
        S.COMPLETED,
        "published_before_start",
        0,
        b'{"shelf":true}',
    )


def incoherent(publication: Publication) -> Published:
    return Published.incoherent("the digest differs")


def unreadable(publication: Publication) -> Published:
    raise OSError("no such disk")


@pytest.mark.parametrize(("lookup", "finding"), [(incoherent, "the digest differs"), (unreadable, "no such disk")])
def test_a_doubtful_publication_waits_for_a_person(
    trial: Trial, make_kind: MakeKind, lookup: Any, finding: str
) -> None:
    """What is there and not coherent, or cannot be read, stops the job before its handler, with the finding."""
    job = trial.run(make_kind(never, lookup=lookup))
    assert job.state is S.RECOVERY_REQUIRED
    assert finding in job.diagnostic


def test_a_missing_tool_blocks_unspent_until_it_is_found(trial: Trial, make_kind: MakeKind) -> None:
    """Without its tool a job is BLOCKED with the sentence and spends nothing; the next worker that has it runs it."""
    missing: list[str] = ["exiftool is not installed; install it"]
    kind = make_kind(lambda context, input: "done", missing=lambda: missing[0] if missing else None)
    with trial.open(kind) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        engine.work()
        blocked = engine.job(job_id)
        assert (blocked.state, blocked.reason, blocked.diagnostic) == (S.BLOCKED, "tool_missing", missing[0])
        assert (blocked.spent, outcomes(engine, job_id)) == (0, ["blocked"])
        missing.clear()
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.spent, job.result) == (S.COMPLETED, 1, b'"done"')
    assert [line.reason for line in engine_history(trial, kind, job_id) if line.verb == "release"] == ["tool_found"]


def engine_history(trial: Trial, kind: Kind, job_id: str) -> Any:
    with trial.open(kind, access="read") as engine:
        return engine.history(job_id=job_id)


def test_a_question_for_a_tool_that_fails_costs_one_job(trial: Trial, make_kind: MakeKind) -> None:
    """A `missing` that raises fails its own job; neither this worker nor the next one ends of it."""

    def broken() -> str | None:
        raise RuntimeError("the question failed")

    first, other = make_kind(never, missing=broken, max_attempts=1), make_kind(lambda context, input: 1, "trial.other")
    with trial.open(first, other) as engine:
        failed, done = engine.submit(first, None).job_id, engine.submit(other, None).job_id
        engine.work()
        assert (engine.job(failed).state, engine.job(done).state) == (S.FAILED, S.COMPLETED)
        assert "the question failed" in engine.job(failed).diagnostic


def test_a_blocked_job_whose_question_fails_stays_blocked(trial: Trial, make_kind: MakeKind) -> None:
    """A worker starts even when a kind cannot say whether its tool is here."""
    answers: list[Any] = ["it is not here", RuntimeError("the question failed")]

    def missing() -> str | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    with trial.open(kind := make_kind(never, missing=missing)) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        engine.work()
        assert (engine.job(job_id).state, answers) == (S.BLOCKED, [])


def test_published_wins_over_the_time_limit(trial: Trial, make_kind: MakeKind) -> None:
    """E-S2: what was published when the active time ran out completes the job, and the limit stays visible."""
    shelf = Shelf()

    def handler(context: Context, input: object) -> None:
        context.publish(shelf.put)
        trial.clock.advance(31)
        context._wishes.ask("limit")
        context.boundary()

    job = trial.run(make_kind(handler, lookup=shelf.lookup, active_limit_s=30))
    assert (job.state, job.spent) == (S.COMPLETED, 1)
    assert "active time" in job.diagnostic


def test_the_time_limit_blocks(trial: Trial, make_kind: MakeKind) -> None:
    """Active time that is used up without a publication blocks the job, spends the attempt, and cleans up."""
    shelf = Shelf()

    def handler(context: Context, input: object) -> None:
        trial.clock.advance(30)
        context._wishes.ask("limit")
        context.boundary()

    job = trial.run(make_kind(handler, lookup=shelf.lookup, discard=shelf.discard, active_limit_s=30))
    assert (job.state, job.reason, job.spent, job.active_ms) == (S.BLOCKED, "active_time_limit", 1, 30_000)
    assert shelf.cleaned == 1


def test_a_return_without_the_publication_is_a_failure(trial: Trial, make_kind: MakeKind) -> None:
    """A kind that publishes and returns without doing so fails at once, with that sentence: again would be the same."""
    shelf = Shelf()
    job = trial.run(make_kind(lambda context, input: "done", lookup=shelf.lookup, discard=shelf.discard))
    assert (job.state, job.spent, job.result) == (S.FAILED, 1, None)
    assert "without its final publication" in job.diagnostic
    assert (shelf.looked, shelf.cleaned) == (2, 1)


def test_a_return_after_publishing_needs_no_second_look(trial: Trial, make_kind: MakeKind) -> None:
    """After `publish` and a plain return the result is the handler's, and nothing is asked again."""
    shelf = Shelf()
    job = trial.run(make_kind(lambda context, input: context.publish(shelf.put), lookup=shelf.lookup))
    assert (job.state, job.result, shelf.looked) == (S.COMPLETED, b'"put"', 1)


def test_a_failure_after_publishing_is_complete(trial: Trial, make_kind: MakeKind) -> None:
    """A handler that publishes and then fails has done its work; the failure stays visible."""
    shelf = Shelf()

    def handler(context: Context, input: object) -> None:
        context.publish(shelf.put)
        raise ValueError("afterwards")

    job = trial.run(make_kind(handler, lookup=shelf.lookup))
    assert (job.state, job.spent, job.failures) == (S.COMPLETED, 1, 0)
    assert "afterwards" in job.diagnostic


class Unsayable(Exception):
    def __str__(self) -> str:
        raise ValueError("it cannot be said")


RAISED: dict[str, tuple[BaseException, S]] = {
    "an error": (ValueError("wrong"), S.RETRY_WAIT),
    "half a character": (ValueError("file \udcff is bad"), S.RETRY_WAIT),
    "one that cannot be said": (Unsayable(), S.RETRY_WAIT),
    "a very long one": (ValueError("é" * 100_000), S.RETRY_WAIT),
    "an end of the program": (SystemExit(3), S.FAILED),
    "an interrupt": (KeyboardInterrupt(), S.FAILED),
    "the end of a generator": (GeneratorExit(), S.FAILED),
    "a group": (BaseExceptionGroup("both", [ValueError("a"), KeyboardInterrupt()]), S.FAILED),
}


@pytest.mark.parametrize("name", RAISED)
def test_a_handler_may_raise_anything(trial: Trial, make_kind: MakeKind, name: str) -> None:
    """Whatever is raised ends that attempt alone: bounded, in words, with its traceback in the log; others go on."""
    error, state = RAISED[name]

    def handler(context: Context, input: object) -> str:
        if input == "raise":
            raise error
        return "done"

    with trial.open(kind := make_kind(handler)) as engine:
        failing, other = engine.submit(kind, "raise").job_id, engine.submit(kind, "return").job_id
        report = engine.work()
        job = engine.job(failing)
        assert engine.job(other).state is S.COMPLETED
    assert (job.state, report.ended, job.failures) == (state, 2, 1)
    assert type(error).__name__ in job.diagnostic
    assert len(job.diagnostic.encode()) <= 2048
    failures = [line for line in trial.log(failing) if line["message"] == "handler_failed"]
    assert type(error).__name__ in failures[0]["traceback"]
    assert "test_executor.py" in failures[0]["traceback"]


RESULTS: dict[str, object] = {
    "no value of JSON": object(),
    "half a character": "\udcff",
    "256 KiB and more": "x" * (256 * 1024),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_that_cannot_be_kept_fails_after_one_run(trial: Trial, make_kind: MakeKind, name: str) -> None:
    """E-A2: what is too large or cannot be encoded is a permanent failure that says so; the handler ran once."""
    calls: list[int] = []

    def handler(context: Context, input: object) -> object:
        calls.append(1)
        return RESULTS[name]

    job = trial.run(make_kind(handler))
    assert (job.state, job.spent, calls) == (S.FAILED, 1, [1])
    assert job.diagnostic.startswith("result: ")
    assert job.diagnostic.count("result: ") == 1
    if name.startswith("half"):
        assert "it holds half a character (a lone surrogate)" in job.diagnostic
    if name.startswith("256"):
        assert "262146 bytes, the limit is 262144" in job.diagnostic


def test_a_result_that_cannot_be_kept_does_not_undo_a_publication(trial: Trial, make_kind: MakeKind) -> None:
    """What was published is done, even if the value returned afterwards is useless."""
    shelf = Shelf()

    def handler(context: Context, input: object) -> object:
        context.publish(shelf.put)
        return object()

    job = trial.run(make_kind(handler, lookup=shelf.lookup))
    assert (job.state, job.result) == (S.COMPLETED, b'{"shelf":true}')


@pytest.mark.parametrize("value", [None, 0, "é", [1, None], {"a": {"b": 2.5}}, "x" * (256 * 1024 - 2)])
def test_a_result_is_kept(trial: Trial, make_kind: MakeKind, value: object) -> None:
    """What JSON can hold, up to 256 KiB, is the job's result; None is none."""
    job = trial.run(make_kind(lambda context, input: value))
    assert job.state is S.COMPLETED
    assert (None if job.result is None else msgspec.json.decode(job.result)) == value


def test_failures_are_retried_in_their_time_and_bounded(trial: Trial, make_kind: MakeKind) -> None:
    """An error waits for its backoff, never longer than its cap, and the third one is the last."""
    waits: list[float] = []

    def handler(context: Context, input: object) -> None:
        waits.append((trial.clock.now() - failed_at[-1]) / 1e6)
        failed_at.append(trial.clock.now())
        raise ValueError(f"failure {context.attempt}")

    failed_at = [trial.clock.now()]
    job = trial.run(make_kind(handler, backoff=Backoff(base_s=8.0, cap_s=12.0)))
    assert (job.state, job.reason, job.spent, job.failures) == (S.FAILED, "attempts_exhausted", 3, 3)
    assert "failure 3" in job.diagnostic
    assert len(waits) == 3
    assert waits[0] == 0
    assert 0 <= waits[1] <= 8
    assert 0 <= waits[2] <= 12


def test_a_kind_says_what_is_worth_another_try(trial: Trial, make_kind: MakeKind) -> None:
    """`give_up_on` is permanent at once; what `retry_on` does not list too."""

    def handler(context: Context, input: Any) -> None:
        raise {"a": OSError("disk"), "b": FileNotFoundError("gone"), "c": ValueError("wrong")}[input]

    with trial.open(kind := make_kind(handler, retry_on=(OSError,), give_up_on=(FileNotFoundError,))) as engine:
        jobs = [engine.submit(kind, letter).job_id for letter in "abc"]
        engine.work()
        assert [engine.job(job).state for job in jobs] == [S.RETRY_WAIT, S.FAILED, S.FAILED]


def test_answers_are_not_failures(trial: Trial, make_kind: MakeKind) -> None:
    """Snooze waits unspent and runs again, GiveUp fails at once, Doubt waits for a person."""

    def handler(context: Context, input: Any) -> object:
        answers = {"snooze": Snooze(60, "not yet"), "give up": GiveUp("never"), "doubt": Doubt("who knows")}
        return "slept" if context.attempt > 1 else answers[input]

    with trial.open(kind := make_kind(handler)) as engine:
        jobs = {input: engine.submit(kind, input).job_id for input in ("snooze", "give up", "doubt")}
        engine.work()
        snoozed = engine.job(jobs["snooze"])
        assert (snoozed.state, snoozed.spent, snoozed.reason) == (S.RETRY_WAIT, 0, "not yet")
        assert snoozed.due_at == trial.clock.now() + 60_000_000
        trial.clock.advance(59)
        assert engine.work().ended == 0
        trial.clock.advance(1)
        engine.work()
        assert engine.job(jobs["snooze"]).state is S.COMPLETED
        assert (engine.job(jobs["give up"]).state, engine.job(jobs["give up"]).diagnostic) == (S.FAILED, "never")
        assert engine.job(jobs["doubt"]).state is S.RECOVERY_REQUIRED


class Unwilling:
    """A ledger that refuses so many turns in which something ended, then records them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception, times: float) -> None:
        self.refused, self.left = threading.Event(), times
        real = Ledger.turn

        def turn(ledger: Ledger, endings: Any, *values: Any, **named: Any) -> Any:
            if endings and self.left > 0:
                self.left -= 1
                self.refused.set()
                raise error
            return real(ledger, endings, *values, **named)

        monkeypatch.setattr(Ledger, "turn", turn)
        monkeypatch.setattr(worker, "PATIENCE_S", 0.01)


@pytest.mark.parametrize("error", [StoreBusy("held by another"), DiskLow("free some space")])
def test_an_acknowledgement_waits(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """E-W6: a busy store or a full disk delays the end, with one message, and loses nothing; the handler ran once."""
    Unwilling(monkeypatch, error, times=3)
    calls: list[int] = []
    job = trial.run(make_kind(lambda context, input: calls.append(1)))
    assert (job.state, job.spent, calls) == (S.COMPLETED, 1, [1])
    waits = [line["error"] for line in trial.log("engine") if line["message"] == "store_waits"]
    assert waits == [str(error)]


def test_a_worker_that_is_stopped_hard_leaves_an_end_to_recovery(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, in_thread: Any
) -> None:
    """An end that cannot be recorded is not waited for beyond a second stop; the next worker settles the attempt."""
    unwilling = Unwilling(monkeypatch, StoreBusy("held by another"), times=math.inf)
    shelf = Shelf()
    kind = make_kind(lambda context, input: context.publish(shelf.put), lookup=shelf.lookup)
    with trial.open(kind) as engine:
        job_id = engine.submit(kind, None).job_id
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        assert unwilling.refused.wait(20)
        worker.stop()
        worker.stop()
        with pytest.raises(StoreBusy):
            running.result()
        assert engine.job(job_id).state is S.RUNNING
    monkeypatch.undo()
    with trial.open(kind) as engine:
        assert engine.work().recovered == 1
        job = engine.job(job_id)
    assert (job.state, job.reason, job.spent) == (S.COMPLETED, "recovered_after_publish", 1)


def test_a_store_that_failed_ends_the_worker_with_its_error(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other error of the store is raised by the worker, and the attempt is found interrupted by the next one."""
    Unwilling(monkeypatch, StoreFailed("it is damaged"), times=1)
    with trial.open(kind := make_kind(lambda context, input: "done")) as engine:
        job_id = engine.submit(kind, None).job_id
        with pytest.raises(StoreFailed, match="it is damaged"):
            engine.work()
    with trial.open(kind) as engine:
        engine.work()
        job = engine.job(job_id)
        assert outcomes(engine, job_id) == ["interrupted", "completed"]
    assert (job.state, job.spent, job.interruptions) == (S.COMPLETED, 2, 1)


def test_an_input_that_cannot_be_read_any_more_fails(trial: Trial, make_kind: MakeKind) -> None:
    """A job whose stored input does not fit the kind's type any more fails by name, without its handler."""
    with trial.open(kind := make_kind(never)) as engine:
        job_id = engine.submit(kind, {"width": "wide"}).job_id
    narrow = Kind("trial.work", 1, never, dict[str, int])
    with trial.open(narrow) as engine:
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.spent) == (S.FAILED, 1)
    assert "invalid_input" in job.diagnostic
