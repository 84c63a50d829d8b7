"""For the tests of an application: a clock that a test moves, a workspace for trials, and a worker run to its rest.

Public. What does not live here: a pretend store (the real one is fast enough in a temporary folder), and sleeping.
"""

from __future__ import annotations

from pathlib import Path

from perenne import wiring
from perenne.app import App
from perenne.core.states import JobState
from perenne.runtime.clock import Clock
from perenne.runtime.engine import Engine
from perenne.runtime.worker import Report

START_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z


class FakeClock(Clock):
    """A clock that stands still until a test moves it; give it to `perenne.open(…, clock=…)`.

    Args: start: UTC microseconds.
    """

    def __init__(self, start: int = START_US) -> None:
        moved = {"wall_us": start, "monotonic_s": 0.0}
        super().__init__(now=lambda: max(int(moved["wall_us"]), 0), monotonic=lambda: moved["monotonic_s"])
        object.__setattr__(self, "_moved", moved)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.step(seconds)
        self._moved["monotonic_s"] += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back, as a person or a time server does; no time passes."""
        self._moved["wall_us"] += round(seconds * 1e6)

    _moved: dict[str, float]


def workspace(folder: Path, app: App, *, name: str = "trial") -> Path:
    """A new specimen workspace of this app, in which crash points may be armed; its root, to be opened.

    Args: folder: may be new; pytest's `tmp_path` does.
    """
    return wiring.create(folder, app, name=name, specimen=True).root


def drain(engine: Engine, *, slots: int = 1, clock: FakeClock | None = None) -> Report:
    """Work until nothing is left that could run now; with the clock of the engine, until nothing waits for a time.

    Args: engine: opened with `access="work"`. clock: is moved to the time that each retry and snooze waits for.
    """
    report = engine.work(slots=slots)
    while clock is not None and (due_at := _next_due(engine)) is not None:
        clock.advance(max((due_at - clock.now()) / 1e6, 0.0))
        more = engine.work(slots=slots)
        report.ended += more.ended
        if not more.ended:
            break  # what is due is paused, or of a kind that is not known here
    return report


def _next_due(engine: Engine) -> int | None:
    waiting = [job for state in (JobState.RETRY_WAIT, JobState.QUEUED) for job in engine.jobs(state=state)]
    return min((job.due_at for job in waiting if job.due_at), default=None)
