"""A worker that failed leaves nothing stuck: it is not entered again, and the next one settles what it left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import perenne
from perenne import App, JobState, Kind
from perenne.errors import InvalidInput, NotAllowed
from perenne.runtime.clock import SYSTEM, Clock

APP = App("failing", [Kind("a.b", 1, lambda context, input: input, int, max_attempts=9)])


def failing_after(calls: int) -> Callable[[], int]:
    """A clock that fails once, at its n-th call."""
    left = [calls]

    def now() -> int:
        left[0] -= 1
        if left[0] == 0:
            raise OSError("the clock is gone")
        return SYSTEM.now()

    return now


@pytest.mark.parametrize("calls", range(4, 16))
def test_a_fault_anywhere_leaves_no_job_running_for_ever(tmp_path: Path, calls: int) -> None:
    """Wherever the loop fails, the same engine offers no second worker, and the next one completes every job."""
    perenne.create(tmp_path / "w", APP, name="w")
    with perenne.open(tmp_path / "w", APP) as engine:
        jobs = [engine.submit("a.b", number).job_id for number in range(3)]
    with perenne.open(
        tmp_path / "w", APP, access="work", clock=Clock(failing_after(calls), SYSTEM.monotonic)
    ) as engine:
        try:
            engine.work()
        except OSError:
            with pytest.raises(NotAllowed, match="open it again"):
                engine.work()
    with perenne.open(tmp_path / "w", APP, access="work") as engine:
        engine.work()
        assert {engine.job(job).state for job in jobs} == {JobState.COMPLETED}


@pytest.mark.parametrize("requested_at", [-1, 1 << 63, (1 << 63) - 1, "now", 1.5])
def test_a_time_that_no_calendar_has_is_refused_at_submit(tmp_path: Path, requested_at: object) -> None:
    """A job that would kill its worker is never accepted."""
    perenne.create(tmp_path / "w", APP, name="w")
    with perenne.open(tmp_path / "w", APP) as engine:
        with pytest.raises(InvalidInput, match="requested_at"):
            engine.submit("a.b", 1, requested_at=requested_at)
        assert engine.jobs() == []


def test_a_result_that_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    """Not a number is no result: the job fails and says so, instead of keeping null."""
    app = App("nan", [Kind("a.b", 1, lambda context, input: {"x": float("nan")}, int)])
    perenne.create(tmp_path / "w", app, name="w")
    with perenne.open(tmp_path / "w", app, access="work") as engine:
        job_id = engine.submit("a.b", 1).job_id
        engine.work()
        job = engine.job(job_id)
    assert job.state is JobState.FAILED
    assert "nan" in (job.diagnostic or "")
