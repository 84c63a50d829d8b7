"""Active time: used up over the attempts of a job, and given anew each time a person lets it go on."""

from __future__ import annotations

import time
from pathlib import Path

import perenne
from perenne import App, Context, JobState, Kind


def spin(context: Context, input: dict[str, str]) -> None:
    while True:
        context.boundary()
        time.sleep(0.002)  # reason: the work of this handler is to use up time


APP = App("time", [Kind("spin", 1, spin, dict[str, str], active_limit_s=0.1, max_attempts=9)])


def test_each_release_gives_the_same_time_anew(tmp_path: Path) -> None:
    """However often it is released, the job ends BLOCKED after its limit, not after a limit that grows."""
    perenne.create(tmp_path / "w", APP, name="time")
    with perenne.open(tmp_path / "w", APP, access="work") as engine:
        job_id = engine.submit("spin", {}).job_id
        for _ in range(4):
            engine.work()
            assert engine.job(job_id).reason == "active_time_limit"
            engine.release(job_id, "again")
        engine.work()
        used_ms = [attempt.active_ms for attempt in engine.attempts(job_id)]
        assert engine.job(job_id).state is JobState.BLOCKED
    assert len(used_ms) == 5
    assert max(used_ms) < 3 * min(used_ms), used_ms
