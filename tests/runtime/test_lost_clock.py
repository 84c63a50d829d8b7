"""A machine whose clock has lost the time and shows one before 1970, as some do that start without a battery."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from perenne import JobState, Kind, testing
from perenne.core.retry import Backoff
from perenne.runtime import clock as clocks


def test_work_goes_on_before_1970(trial: Any, make_kind: Callable[..., Kind], monkeypatch: pytest.MonkeyPatch) -> None:
    """A time before 1970 is read as the first of 1970: jobs are submitted and run; a retry waits for the right time."""
    shown_ns = -3600 * 10**9
    monkeypatch.setattr(clocks, "time", SimpleNamespace(time_ns=lambda: shown_ns, monotonic=time.monotonic))
    calls: list[Any] = []

    def handler(context: Any, input: Any) -> None:
        calls.append(input)
        if input == "fail" and len(calls) < 3:
            raise OSError("not yet")

    kind = make_kind(handler, backoff=Backoff(base_s=60.0, cap_s=60.0))
    with trial.open(kind, real_time=True) as engine:
        done, retried = engine.submit(kind, "end").job_id, engine.submit(kind, "fail").job_id
        engine.work()
        assert (engine.job(done).state, engine.job(done).finished_at) == (JobState.COMPLETED, 0)
        assert engine.job(retried).state is JobState.RETRY_WAIT
        shown_ns = testing.START_US * 1000
        engine.work()
        assert engine.job(retried).state is JobState.COMPLETED
    assert calls == ["end", "fail", "fail"]


def test_the_clock_of_a_test_shows_no_time_before_1970() -> None:
    """A fake clock that is set back beyond 1970 shows what the machine's would be read as."""
    clock = testing.FakeClock(start=5_000_000)
    clock.step(-6)
    assert clock.now() == 0
    clock.advance(2)
    assert clock.now() == 1_000_000
