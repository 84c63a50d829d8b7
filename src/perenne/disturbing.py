"""Forces a pause, a stop, a cancellation, a break or a kill at each boundary of a handler, and compares what comes out.

Public, also as the fixture `perenne_disturb`. What does not live here: the boundary itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from perenne import testing, wiring
from perenne.app import App
from perenne.core.job import Job, Receipt
from perenne.core.states import FINAL, JobState
from perenne.runtime import disturbance
from perenne.runtime.engine import Engine
from perenne.runtime.wishes import Wishes

Submit = Callable[[Engine], str]


class Way(StrEnum):
    """What is done to a job at a boundary; afterwards it is let go on."""

    PAUSE = "pause"
    SUSPEND = "suspend"  # as by a worker that shuts down
    CANCEL = "cancel"  # and requeued
    BREAK = "break"  # gives way at a sequence break, for kinds with an estimate
    KILL = "kill"  # its worker, as by kill -9


def disturb(
    folder: Path,
    app: App,
    submit: Callable[[Engine], str | Receipt],
    *,
    ways: Sequence[str] = ("pause", "suspend", "cancel", "kill"),
    make: Callable[[Path], Path] | None = None,
    same: Callable[[Engine, Job], Any] | None = None,
    most: int = 20,
) -> dict[str, int]:
    """Run a job undisturbed, then once for each boundary and each way of disturbing it there: the same must come out.

    Args: folder: where the workspaces are made. submit: stores the job; what it needs beside is already in the
    workspace, which `make` makes (else an empty one). ways: also `break`, for a kind with an estimate. `kill` needs an
    app at the top of a module. same: what is compared, else state and result. most: boundaries that are visited.
    Returns: how many boundaries were disturbed in each way.
    Raises: AssertionError: something else came out; names the way, the boundary, and both.
    """

    def submitted(engine: Engine) -> str:
        receipt = submit(engine)
        return receipt if isinstance(receipt, str) else receipt.job_id

    made = make or (lambda root: testing.workspace(root, app))
    compared = same or (lambda engine, job: (str(job.state), job.result))
    return _run(_Trial(folder, app, submitted, made, compared), ways, most)


class _Trial:
    """One kind of job of one application, run again and again in new workspaces."""

    def __init__(
        self, folder: Path, app: App, submit: Submit, make: Callable[[Path], Path], same: Callable[[Engine, Job], Any]
    ) -> None:
        self._folder, self._app, self._submit, self._make, self._same = folder, app, submit, make, same
        self._made = 0

    def undisturbed(self) -> tuple[Any, int]:
        """What comes out, and how many boundaries there were."""
        counting = _At(0, None)
        return self._run(counting), counting.met

    def disturbed(self, way: Way, number: int) -> Any:
        """What comes out when it happens at the boundary of this number, from 1."""
        if way is not Way.KILL:
            return self._run(_At(number, way))
        root, clock = self._new(), testing.FakeClock()
        with wiring.open(root, self._app, clock=clock) as engine:
            id = self._submit(engine)
        testing.crash(root, self._app, f"run.boundary:{number}", clock=clock)
        with wiring.open(root, self._app, access="work", clock=clock) as engine:
            return self._end(engine, id, clock)

    def _new(self) -> Path:
        self._made += 1
        return self._make(self._folder / f"disturbed-{self._made}")

    def _run(self, at: _At) -> Any:
        clock = testing.FakeClock()
        with wiring.open(self._new(), self._app, access="work", clock=clock) as engine:
            at.engine = engine
            id = self._submit(engine)
            with disturbance.told(at.boundary, at.gives_way):
                testing.drain(engine, clock=clock)
            return self._end(engine, id, clock)

    def _end(self, engine: Engine, id: str, clock: testing.FakeClock) -> Any:
        """Let it go on until it has ended."""
        testing.drain(engine, clock=clock)
        state = engine.job(id).state
        if state is JobState.PAUSED:
            engine.resume(id)
        elif state is JobState.CANCELLED:
            engine.requeue(id, "disturbed on purpose")
        testing.drain(engine, clock=clock)
        job = engine.job(id)
        if job.state not in FINAL:
            raise AssertionError(f"job {id} is {job.state} ({job.reason}: {job.diagnostic}) and does not go on")
        return self._same(engine, job)


class _At:
    """Counts the boundaries of this process, and does something at one of them, once."""

    def __init__(self, number: int, way: Way | None) -> None:
        self._number, self._way = number, way
        self.met, self.engine, self._break = 0, None, False  # type: int, Engine | None, bool

    def boundary(self, job_id: str, wishes: Wishes) -> None:
        self.met += 1
        if self.met != self._number:
            return
        if self._way is Way.BREAK:
            self._break = True
        elif self._way is Way.SUSPEND:
            wishes.ask("suspend")
        elif self._way is not None and self.engine is not None:
            getattr(self.engine, self._way)(job_id)
            wishes.ask(self._way)  # what a wake-up would tell it a moment later

    def gives_way(self) -> bool:
        breaks, self._break = self._break, False
        return breaks


def _run(trial: _Trial, ways: Sequence[str], most: int) -> dict[str, int]:
    expected, boundaries = trial.undisturbed()
    step = max(-(-boundaries // most), 1)
    visited = {str(way): 0 for way in ways}
    for way in map(Way, ways):
        for number in range(1, boundaries + 1, step):
            found = trial.disturbed(way, number)
            visited[way] += 1
            if found != expected:
                raise AssertionError(
                    f"{way} at boundary {number} of {boundaries}: {found!r} came out, and undisturbed {expected!r}"
                )
    return visited
