"""A workspace for one test, with the kinds that the test brings, and every wait with a limit."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Engine, Job, Kind, crashpoints, testing
from perenne.runtime import clock as clocks

LIMIT_S = 20.0


class Trial:
    """One workspace; engines opened here are closed with the test. Time stands still unless told otherwise."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, testing.FakeClock()
        self._opened = contextlib.ExitStack()

    def open(self, *kinds: Kind, access: Any = "work", real_time: bool = False) -> Engine:
        """An engine of this workspace, which is made with the first one."""
        app = App("trial", kinds)
        if not self.root.exists():
            testing.workspace(self.root, app)
        clock = clocks.SYSTEM if real_time else self.clock
        return self._opened.enter_context(perenne.open(self.root, app, access=access, clock=clock))

    def run(self, kind: Kind, input: object = None, **options: Any) -> Job:
        """The job as it stands after the worker found nothing more to do."""
        with self.open(kind) as engine:
            receipt = engine.submit(kind, input, **options)
            testing.drain(engine, clock=self.clock)
            return engine.job(receipt.job_id)

    def log(self, job_id: str) -> list[dict[str, Any]]:
        """The lines of a job's log."""
        path = self.root / ".perenne" / "logs" / f"{job_id}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def close(self) -> None:
        self._opened.close()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(tmp_path / "work")
    yield made
    made.close()


@pytest.fixture
def make_kind() -> Callable[..., Kind]:
    """`make_kind(handler, **fields)`: version 1 of `trial.work`, which takes any input."""

    def make(handler: Callable[..., Any], name: str = "trial.work", **fields: Any) -> Kind:
        return Kind(name, 1, handler, Any, **fields)

    return make


@pytest.fixture
def passed() -> Iterator[list[str]]:
    """Names of the crash points that are passed, in order."""
    names: list[str] = []
    crashpoints.observe(names.append)
    yield names
    crashpoints.observe(None)


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], Any]], Background]]:
    """`in_thread(function)`: runs it beside the test; its answer or error is asked for with a limit."""
    started: list[Background] = []

    def start(function: Callable[[], Any]) -> Background:
        started.append(Background(function))
        return started[-1]

    yield start
    for one in started:
        one.thread.join(LIMIT_S)
        assert not one.thread.is_alive(), "a thread of the test goes on"


class Background:
    """A call in a thread of its own."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._answer: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._function()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive(), f"no answer within {LIMIT_S} s"
        if self._error is not None:
            raise self._error
        return self._answer
