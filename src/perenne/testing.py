"""For the tests of an application: a clock that a test moves, a workspace for trials, a worker run to its rest.

Public; the same as fixtures of pytest: `pytest_plugin`. What does not live here: a pretend store (the real one is fast
enough in a temporary folder), sleeping, and a job that is disturbed (`disturbing`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perenne import crashpoints, wiring
from perenne.app import App
from perenne.core.job import Job, Receipt
from perenne.core.states import JobState
from perenne.errors import InvalidInput
from perenne.runtime.clock import SYSTEM, Clock
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


def result(engine: Engine, job: Receipt | str) -> Any:
    """The result of a completed job, as Python has it.

    Raises: AssertionError: the job has not completed; says where it stands, why, and how it came there.
    """
    found = engine.job(job if isinstance(job, str) else job.job_id)
    if found.state is not JobState.COMPLETED:
        raise AssertionError(_story(engine, found))
    return None if found.result is None else msgspec.json.decode(found.result)


def _story(engine: Engine, job: Job) -> str:
    """A job that is not where a test wants it, in a few lines."""
    lines = [f"job {job.id} of {job.kind}@{job.version} is {job.state} ({job.reason}) and not COMPLETED"]
    lines += [f"  last said: {job.diagnostic}"] if job.diagnostic else []
    lines += [f"  {line.verb}: {line.reason}" for line in engine.history(job_id=job.id)]
    if job.state is JobState.QUEUED:
        lines.append("  nobody has worked since; drain() before asking for the result")
    return "\n".join(lines)


class Crash(NamedTuple):
    """A process that was killed at a crash point, and what it had printed."""

    point: str
    output: str


def crash(
    root: Path,
    app: App,
    point: str,
    work: Callable[[Engine], object] | None = None,
    *,
    clock: FakeClock | None = None,
    limit_s: float = 60.0,
) -> Crash:
    """Work in a new process until it is killed at a crash point, as by `kill -9`.

    Args: point: one of `perenne.crashpoints.POINTS`, or `name:n` for its n-th passage. work: a function at the top of
    a module, called with an engine open for work; else `drain`. clock: says what time it is in the new process.
    Raises: InvalidInput: there is no such point, or the new process could not import app or work. AssertionError: the
    process ended otherwise; says how, what it printed and which points it passed.
    """
    if point.partition(":")[0] not in crashpoints.POINTS:
        raise InvalidInput(f"crash point: {point!r} is none; give one of {', '.join(crashpoints.POINTS)}")
    work_name = "" if work is None else _name_of(work.__module__, work.__qualname__, work)
    given = [str(root), _app_name(app), work_name, str((clock or SYSTEM).now())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), crashpoints.VARIABLE: point}
    program = "import sys; from perenne import testing; testing.work_until_killed(*sys.argv[1:])"
    try:
        ended = subprocess.run(
            [sys.executable, "-u", "-c", program, *given],
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{point}: nobody died there within {limit_s:g} s\n{error.stdout or b''!r}") from None
    output = ended.stdout + ended.stderr
    if ended.returncode != -signal.SIGKILL:
        raise AssertionError(f"{point}: the process ended with {ended.returncode} instead\n{output}")
    return Crash(point, output)


def work_until_killed(root: str, app: str, work: str, now_us: str) -> None:
    """What runs in the new process."""
    passed: dict[str, None] = {}
    crashpoints.observe(lambda name: passed.setdefault(name))
    clock = FakeClock(int(now_us))
    with wiring.open(root, _found(app), access="work", clock=clock) as engine:
        _found(work)(engine) if work else drain(engine, clock=clock)
    print(f"it passed {', '.join(passed)}")


def _app_name(app: App) -> str:
    """`module:name` of the app, wherever a loaded module has it."""
    for module in tuple(sys.modules.values()):
        for name, value in tuple(vars(module).items()) if hasattr(module, "__dict__") else ():
            if value is app and module.__name__ != "__main__":
                return _name_of(module.__name__, name, app)
    raise InvalidInput(f"app {app.name}: no module has it at its top; a new process could not import it", field="app")


def _name_of(module: str, name: str, value: object) -> str:
    if getattr(sys.modules.get(module), name, None) is not value:
        raise InvalidInput(
            f"{module}.{name}: a new process cannot import it, since it does not stand at the top of its module"
        )
    return f"{module}:{name}"


def _found(name: str) -> Any:
    import importlib

    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
