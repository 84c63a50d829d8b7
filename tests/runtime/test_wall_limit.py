"""A hard time limit in a thread: past it nothing is kept, and the job runs again once the thread ended."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne import Attempt, Context, Job, JobState, Kind, Publication, Published, tools
from perenne.errors import Unwound, WallLimitReached
from perenne.runtime import drain

Trial = Any
MakeKind = Callable[..., Kind]
S = JobState
LIMIT_S = 20.0
TOOL_LIMITS = tools.Limits(
    wall_s=60,
    cpu_s=60,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=1024,
    stderr_bytes=1024,
)


def past_the_limit(context: Context) -> None:
    """Return once the attempt is asked to stop."""
    assert select.select([context.stop], [], [], LIMIT_S)[0], "the limit was not told"


def until(holds: Callable[[], bool]) -> None:
    """Return once it holds, which another thread brings about without a signal."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        threading.Event().wait(0.002)


def work_once(trial: Trial, kind: Kind) -> tuple[Job, list[Attempt]]:
    """The job and its attempts once the worker found nothing that was due; time passes."""
    with trial.open(kind, real_time=True) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        return engine.job(job_id), engine.attempts(job_id)


def test_an_attempt_over_its_limit_fails_and_runs_again(trial: Trial, make_kind: MakeKind) -> None:
    """E-F5: the next boundary after the limit ends the attempt as a failure that names it; the job is retried."""

    def handler(context: Context, input: object) -> str:
        if context.attempt == 2:
            return "in time"
        past_the_limit(context)
        context.boundary()
        raise AssertionError("the boundary let it pass")

    kind = make_kind(handler, wall_limit_s=0.05)
    job, (first, *_) = work_once(trial, kind)
    assert (first.outcome, first.spent, job.state) == ("failed", True, S.RETRY_WAIT)
    assert "wall_limit_reached: the attempt took longer than 0.05 s" in first.diagnostic


def test_a_result_that_comes_too_late_is_not_taken(trial: Trial, make_kind: MakeKind) -> None:
    """E-S2: the limit stands before what the handler answered; with one attempt the job has failed."""

    def handler(context: Context, input: object) -> str:
        past_the_limit(context)
        return "too late"

    job, _ = work_once(trial, make_kind(handler, wall_limit_s=0.05, max_attempts=1))
    assert (job.state, job.result) == (S.FAILED, None)


def test_nothing_of_a_fenced_attempt_is_kept(trial: Trial, make_kind: MakeKind) -> None:
    """Past its limit an attempt publishes nothing and its progress stays as it was, though its thread goes on."""
    written: list[str] = []

    def handler(context: Context, input: object) -> None:
        context.progress(1, 10)
        past_the_limit(context)
        context.progress(9, 10)
        context.keep_progress()
        with pytest.raises(Unwound):
            context.may_publish()
        context.publish(lambda publication: written.append("published"))

    kind = make_kind(handler, wall_limit_s=0.05, max_attempts=1)
    job, _ = work_once(trial, kind)
    assert (job.state, job.progress_done, written) == (S.FAILED, 1, [])


def test_what_was_published_before_the_limit_stands(trial: Trial, make_kind: MakeKind) -> None:
    """E-S2: a coherent publication is a fact, also of an attempt that went on past its limit."""
    shelf: list[Publication] = []

    def lookup(publication: Publication) -> Published:
        return Published.coherent("found") if shelf else Published.absent()

    def handler(context: Context, input: object) -> str:
        context.publish(shelf.append)
        past_the_limit(context)
        return "late"

    kind = make_kind(handler, wall_limit_s=0.05, lookup=lookup)
    job, _ = work_once(trial, kind)
    assert (job.state, job.result) == (S.COMPLETED, b'"found"')
    assert "wall_limit_reached" in job.diagnostic


def test_the_limit_stops_a_tool(trial: Trial, make_kind: MakeKind) -> None:
    """A tool that the attempt runs is stopped at the limit."""

    def handler(context: Context, input: object) -> str:
        result = tools.run(["/bin/sleep", "60"], cwd=Path("/"), limits=TOOL_LIMITS, stop=context.stop)
        return str(result.kind)

    kind = make_kind(handler, wall_limit_s=0.1, max_attempts=1)
    job, _ = work_once(trial, kind)
    assert job.state is S.FAILED


def test_the_kind_decides_whether_the_limit_is_worth_another_attempt(trial: Trial, make_kind: MakeKind) -> None:
    """A kind that gives up on the limit fails at once."""

    def handler(context: Context, input: object) -> None:
        past_the_limit(context)

    kind = make_kind(handler, wall_limit_s=0.05, give_up_on=(WallLimitReached,))
    job, _ = work_once(trial, kind)
    assert (job.state, job.reason, job.spent) == (S.FAILED, "permanent_error", 1)


def test_a_slot_stays_taken_until_its_thread_has_ended(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, in_thread: Any
) -> None:
    """A runaway keeps its slot and its job is not retried; its worker drains after the grace time."""
    monkeypatch.setattr(drain, "GRACE_S", 0.1)
    monkeypatch.setattr(drain, "LAST_GRACE_S", LIMIT_S)
    over, let_go = threading.Event(), threading.Event()

    def handler(context: Context, input: object) -> None:
        if input == "runaway":
            past_the_limit(context)
            over.set()
            assert let_go.wait(LIMIT_S)

    kind = make_kind(handler, wall_limit_s=0.05)
    with trial.open(kind, real_time=True) as engine:
        runaway = engine.submit(kind, "runaway").job_id
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        assert over.wait(LIMIT_S)
        waits = engine.submit(kind, "next").job_id
        until(lambda: worker.report.drained)
        assert [engine.job(id).state for id in (runaway, waits)] == [S.RUNNING, S.QUEUED]
        let_go.set()
        report = running.result()
        assert report.drained
        assert [engine.job(id).state for id in (runaway, waits)] == [S.RETRY_WAIT, S.QUEUED]
