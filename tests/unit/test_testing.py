"""What applications test with: a clock that moves when told, a workspace for trials, a worker run to its rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Backoff, Context, Engine, JobState, Kind, Snooze, testing

S = JobState


def handle(context: Context, input: str) -> object:
    if input == "snooze" and context.attempt < 3:
        return Snooze(3600)
    if input == "fail":
        raise ValueError("wrong")
    return "done"


KIND = Kind("test.handle", 1, handle, str, backoff=Backoff(1.0, 60.0))
APP = App("test", [KIND])


@pytest.fixture
def clock() -> testing.FakeClock:
    return testing.FakeClock()


@pytest.fixture
def engine(tmp_path: Path, clock: testing.FakeClock) -> Iterator[Engine]:
    root = testing.workspace(tmp_path / "work", APP)
    with perenne.open(root, APP, access="work", clock=clock) as opened:
        yield opened


def test_time_stands_still_until_it_is_moved(clock: testing.FakeClock) -> None:
    """`advance` moves both clocks, `step` the wall clock alone, in either direction."""
    assert (clock.now(), clock.monotonic()) == (testing.START_US, 0.0)
    clock.advance(1.5)
    assert (clock.now(), clock.monotonic()) == (testing.START_US + 1_500_000, 1.5)
    clock.step(-3600)
    assert (clock.now(), clock.monotonic()) == (testing.START_US + 1_500_000 - 3_600_000_000, 1.5)


def test_a_workspace_is_a_specimen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crash points may be armed in a workspace made for a test."""
    root = testing.workspace(tmp_path / "work", APP, name="mine")
    assert "specimen = true" in (root / "workspace.toml").read_text()
    assert 'name = "mine"' in (root / "workspace.toml").read_text()


def test_draining_runs_what_is_due(engine: Engine) -> None:
    """Without the clock a drain leaves what waits for its time."""
    engine.submit(KIND, "return")
    engine.submit(KIND, "snooze")
    assert testing.drain(engine).ended == 2
    assert engine.counts() == {S.COMPLETED: 1, S.RETRY_WAIT: 1}


def test_draining_with_the_clock_lets_time_pass(engine: Engine, clock: testing.FakeClock) -> None:
    """With the clock every retry and snooze comes to its time, and all jobs to their end."""
    for input in ("return", "snooze", "fail"):
        engine.submit(KIND, input)
    report = testing.drain(engine, slots=2, clock=clock)
    assert engine.counts() == {S.COMPLETED: 2, S.FAILED: 1}
    assert report.ended == 1 + 3 + 3
    assert clock.now() >= testing.START_US + 2 * 3600 * 1_000_000


def test_draining_ends_where_nothing_can_run(engine: Engine, clock: testing.FakeClock) -> None:
    """What is paused is not waited for, even when it is due."""
    engine.submit(KIND, "snooze")
    testing.drain(engine)
    engine.pause()
    engine.submit(KIND, "return")
    testing.drain(engine, clock=clock)
    counts: dict[Any, int] = engine.counts()
    assert counts == {S.QUEUED: 1, S.RETRY_WAIT: 1}
