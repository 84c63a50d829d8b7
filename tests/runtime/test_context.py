"""What a handler may do while it runs: its boundaries, its progress, its right to publish, its log, its folder."""

from __future__ import annotations

import contextlib
import select
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne import Cancelled, Context, JobState, Kind, Published
from perenne.core import events
from perenne.errors import InvalidInput, StaleToken, StoreBusy, Unwound
from perenne.runtime.wishes import ORDER, Wishes

Trial = Any
MakeKind = Callable[..., Kind]


def test_a_handler_knows_what_it_runs(trial: Trial, make_kind: MakeKind) -> None:
    """Job id, attempt number, workspace, ids and time of the request are those of the ledger."""
    seen: list[Context] = []
    kind = make_kind(lambda context, input: seen.append(context), publications=("extraction",))
    job = trial.run(kind, requested_at=1_790_000_000_000_000)
    (context,) = seen
    assert (context.job_id, context.attempt, context.workspace) == (job.id, 1, trial.root)
    assert context.publication.requested_at == "2026-09-21T14:13:20Z"
    assert set(context.publication.ids) == {"extraction"}
    assert context.deadline is None


def test_the_deadline_is_what_is_left_of_the_active_time(trial: Trial, make_kind: MakeKind) -> None:
    """The deadline stands on the monotonic clock, and an earlier attempt has used its part."""
    left_s: list[float] = []

    def handler(context: Context, input: object) -> None:
        assert context.deadline is not None
        left_s.append(context.deadline - trial.clock.monotonic())
        trial.clock.advance(10)
        if context.attempt == 1:
            raise ValueError("again")

    with trial.open(kind := make_kind(handler, active_limit_s=30)) as engine:
        engine.submit(kind, None)
        trial_report = engine.work()
        trial.clock.advance(400)
        engine.work()
    assert trial_report.ended == 1
    assert left_s == [30.0, 20.0]


@pytest.mark.parametrize("why", ORDER)
def test_a_boundary_ends_the_frame_for_each_wish(trial: Trial, make_kind: MakeKind, why: str) -> None:
    """A boundary lets pass while nothing is asked, raises Cancelled for cancel and Unwound for everything else."""
    raised: list[BaseException] = []

    def handler(context: Context, input: object) -> None:
        context.boundary()
        if raised:
            return
        context._wishes = Wishes()  # its own: the worker takes back what nobody asked
        context._wishes.ask(why)
        try:
            context.boundary()
        except BaseException as error:
            raised.append(error)
            raise

    trial.run(make_kind(handler, max_attempts=1))
    (error,) = raised
    assert type(error) is (Cancelled if why == "cancel" else Unwound)
    assert not isinstance(error, Exception)


def test_progress_is_shown_at_most_ten_times_a_second(trial: Trial, make_kind: MakeKind, passed: list[str]) -> None:
    """A thousand steps within a second are written at most eleven times, and the last one is always kept."""

    def handler(context: Context, input: object) -> None:
        for done in range(1, 1001):
            context.progress(done, 1000, "counting")
            trial.clock.advance(0.001)

    job = trial.run(make_kind(handler))
    assert (job.progress_done, job.progress_total, job.progress_message) == (1000, 1000, "counting")
    assert 2 <= passed.count("progress.committed") <= 12


def test_progress_within_a_tenth_of_a_second_waits(trial: Trial, make_kind: MakeKind) -> None:
    """The first step is shown at once, the next one not before a tenth of a second has passed."""
    shown: list[int] = []

    def handler(context: Context, input: object) -> None:
        for _ in range(3):
            context.progress(context._done + 1)
            shown.append(engine.job(context.job_id).progress_done)
            trial.clock.advance(0.06)

    with trial.open(kind := make_kind(handler)) as engine:
        engine.submit(kind, None)
        engine.work()
    assert shown == [1, 1, 3]


@pytest.mark.parametrize(
    ("done", "total"), [(4, None), (-1, None), (11, None), (6, 5), (5.5, None), (True, None), ("6", None), (6, 7.5)]
)
def test_progress_only_grows_up_to_its_total(trial: Trial, make_kind: MakeKind, done: Any, total: Any) -> None:
    """A step back, beyond the total or that is no whole number is refused by name, and nothing is shown of it."""
    refused: list[InvalidInput] = []

    def handler(context: Context, input: object) -> None:
        context.progress(5, 10)
        trial.clock.advance(1)
        with pytest.raises(InvalidInput, match="progress") as error:
            context.progress(done, total)
        refused.append(error.value)

    job = trial.run(make_kind(handler))
    assert refused
    assert (job.state, job.progress_done, job.progress_total) == (JobState.COMPLETED, 5, 10)


def test_a_message_of_progress_is_bounded(trial: Trial, make_kind: MakeKind) -> None:
    """A message of any length and content is cut to 2 KiB of text that the ledger can hold."""

    def handler(context: Context, input: object) -> None:
        context.progress(1, message="\udcff" + "x" * 100_000)

    job = trial.run(make_kind(handler))
    assert job.state is JobState.COMPLETED
    assert 1000 < len(job.progress_message.encode()) <= 2048


def test_progress_that_cannot_be_written_costs_nothing(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy store delays what is shown; the handler and its result are not touched, and the log says so."""

    def handler(context: Context, input: object) -> str:
        def busy(*values: object, **named: object) -> None:
            raise StoreBusy("another process held the write lock")

        with monkeypatch.context() as patch:
            patch.setattr(type(context._ledger), "progress", busy)
            context.progress(1, 3)
        trial.clock.advance(1)
        context.progress(2, 3)
        return "done"

    job = trial.run(make_kind(handler))
    assert (job.state, job.result, job.progress_done, job.spent) == (JobState.COMPLETED, b'"done"', 2, 1)
    assert [line["message"] for line in trial.log(job.id)][:1] == ["progress_not_kept"]


def lose_the_right(engine: Any, context: Context) -> None:
    """Somebody settles the attempt, as a recovery would."""
    found = events.Interrupted(Published.absent())
    engine._ledger.settle(context._token, found, now=engine._clock.now(), actor="worker:other")


def test_a_lost_right_ends_progress_and_writes_nothing(trial: Trial, make_kind: MakeKind) -> None:
    """Progress of an attempt that was settled raises StaleToken, and the job shows none of it."""
    errors: list[StaleToken] = []

    def handler(context: Context, input: object) -> None:
        if context.attempt == 2:
            return
        lose_the_right(engine, context)
        with pytest.raises(StaleToken) as error:
            context.progress(7)
        errors.append(error.value)

    with trial.open(kind := make_kind(handler)) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        job = engine.job(job_id)
    assert errors
    assert (job.state, job.progress_done) == (JobState.COMPLETED, 0)
    assert "stale_report_dropped" in [line["message"] for line in trial.log("engine")]


def test_publishing_asks_the_ledger_first(trial: Trial, make_kind: MakeKind) -> None:
    """An attempt that lost its right is unwound at `publish`; what it would have written is never called."""
    written: list[int] = []
    unwound: list[Unwound] = []

    def handler(context: Context, input: object) -> None:
        if context.attempt == 1:
            lose_the_right(engine, context)
        try:
            context.publish(lambda publication: written.append(context.attempt))
        except Unwound as error:
            unwound.append(error)
            raise

    with trial.open(kind := make_kind(handler)) as engine:
        engine.submit(kind, None)
        engine.work()
    assert len(unwound) == 1
    assert written == [2]


def test_a_cancel_that_was_not_heard_yet_stops_a_publication(trial: Trial, make_kind: MakeKind) -> None:
    """`publish` finds the cancel in the ledger even when the worker has not passed it on."""
    written: list[object] = []

    def handler(context: Context, input: object) -> None:
        asked = events.Cancel("no longer wanted")
        engine._ledger.tell(context.job_id, asked, now=engine._clock.now(), actor="person:test")
        context.publish(written.append)

    with trial.open(kind := make_kind(handler)) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        job = engine.job(job_id)
    assert not written
    assert job.state is JobState.CANCELLED


def test_publishing_hands_over_the_identity_and_the_answer(trial: Trial, make_kind: MakeKind) -> None:
    """`publish` calls once with the identity fixed at submit and gives back what it was answered."""
    calls: list[Any] = []

    def write(publication: Any) -> str:
        calls.append(publication)
        return publication.ids["extraction"]

    kind = make_kind(lambda context, input: context.publish(write), publications=("extraction",))
    ids = {"extraction": "01998d3b-0000-7000-8000-0000000000ff"}
    job = trial.run(kind, {"a": 1}, ids=ids)
    assert job.result == b'"01998d3b-0000-7000-8000-0000000000ff"'
    assert [(one.ids, one.input, one.job_id) for one in calls] == [(ids, {"a": 1}, job.id)]


def test_the_log_of_an_attempt_is_bounded(trial: Trial, make_kind: MakeKind) -> None:
    """What a handler logs stays within 1 MiB an attempt, whatever it says, and never fails it."""

    def handler(context: Context, input: object) -> None:
        context.log("odd", surrogate="\udcff", huge=2**70, thing=object(), keys={1: 2}, bad=float("nan"))
        for number in range(3000):
            context.log("x" * 1000, number=number)

    job = trial.run(make_kind(handler))
    assert job.state is JobState.COMPLETED
    assert (trial.root / ".perenne" / "logs" / f"{job.id}.jsonl").stat().st_size <= 1 << 20
    lines = trial.log(job.id)
    assert lines[0]["message"] == "odd"
    assert len(lines) > 900


def test_the_private_folder_lives_as_long_as_the_attempt(trial: Trial, make_kind: MakeKind) -> None:
    """`stage` is a folder of 0700 of this attempt alone; nothing of it is left, however the attempt ends."""
    folders: list[Path] = []

    def handler(context: Context, input: object) -> None:
        assert not (trial.root / ".perenne" / "stage").joinpath("x").exists()
        folders.append(context.stage)
        assert context.stage == folders[-1]
        assert stat.S_IMODE(context.stage.stat().st_mode) == 0o700
        (context.stage / "deep").mkdir()
        (context.stage / "deep" / "copy").write_bytes(b"x")
        raise ValueError("failed")

    with trial.open(kind := make_kind(handler, max_attempts=2)) as engine:
        engine.submit(kind, None)
        engine.work()
        trial.clock.advance(400)
        engine.work()
    assert len(set(folders)) == 2
    assert not any(folder.exists() for folder in folders)


def test_a_handler_cannot_swallow_its_end(trial: Trial, make_kind: MakeKind) -> None:
    """A handler that catches every Exception is still ended at its boundary."""

    def handler(context: Context, input: object) -> str:
        engine.pause(context.job_id)
        assert select.select([context.stop.fileno()], [], [], 20)[0]
        with contextlib.suppress(Exception):
            context.boundary()
        return "went on"

    with trial.open(kind := make_kind(handler)) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.result, job.spent) == (JobState.PAUSED, None, 0)
