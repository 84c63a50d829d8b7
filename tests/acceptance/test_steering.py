"""A word from another process reaches the running handler and its tool at once, woken and not by polling (E-X4)."""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import perenne
from perenne import Engine, JobState

PROGRAM = Path(__file__).with_name("sleeper.py")
PROMISED_S = 0.1
HARD_S = 1.0
BEGINS_S = 20.0

WORDS: dict[str, tuple[Callable[[Engine, str], object], JobState, int]] = {
    "cancel": (lambda engine, job: engine.cancel(job), JobState.CANCELLED, 2),
    "pause": (lambda engine, job: engine.pause(job), JobState.PAUSED, 3),
    "stop": (lambda engine, job: engine.stop(), JobState.QUEUED, 3),
}


class Running(NamedTuple):
    """A job that is being worked on: the engine of this process, the job, the worker, and whoever does the work."""

    engine: Engine
    job_id: str
    worker: subprocess.Popen[bytes]
    doer: int


@pytest.fixture(scope="module")
def sleeper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sleeper", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sleeper"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["tool", "loop"])
def running(request: pytest.FixtureRequest, tmp_path: Path, sleeper: ModuleType) -> Iterator[Running]:
    """A worker in another process, in the middle of its job."""
    root, pipe = tmp_path / "work", tmp_path / "pipe"
    os.mkfifo(pipe)
    perenne.create(root, sleeper.app, name="Sleeper")
    with perenne.open(root, sleeper.app) as engine:
        receipt = engine.submit("test.go_on", {"how": request.param, "pipe": str(pipe)})
        worker = subprocess.Popen([sys.executable, str(PROGRAM), str(root)])
        try:
            yield Running(engine, receipt.job_id, worker, os.pidfd_open(_number_from(pipe)))
        finally:
            worker.kill()
            worker.wait()


def _number_from(pipe: Path) -> int:
    """The process number that whoever does the work writes when it has begun."""
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # for both ends, so that it is readable only when written
    try:
        assert select.select([descriptor], [], [], BEGINS_S)[0], "the work did not begin"
        return int(os.read(descriptor, 100))
    finally:
        os.close(descriptor)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs process descriptors, that is Linux")
@pytest.mark.parametrize("word", WORDS)
def test_a_word_reaches_the_handler_and_its_tool(
    running: Running, word: str, record_property: Callable[[str, object], None]
) -> None:
    """Cancel, pause and stop from another process end the attempt and its tool, promised within 100 ms."""
    say, state, attempts_left = WORDS[word]
    began_s = time.monotonic()
    say(running.engine, running.job_id)
    assert select.select([running.doer], [], [], HARD_S)[0], f"{word}: not ended after {HARD_S} s"
    took_s = time.monotonic() - began_s
    os.close(running.doer)
    assert running.worker.wait(HARD_S) == 0
    record_property(f"{word}_s", took_s)
    print(f"{word}: ended after {took_s * 1000:.0f} ms (promised {PROMISED_S * 1000:.0f} ms)")
    job = running.engine.job(running.job_id)
    assert (job.state, job.attempts_left) == (state, attempts_left)
