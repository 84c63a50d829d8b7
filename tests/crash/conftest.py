"""Fixtures of the crash tests; the bench itself is the folder `harness`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness import figures, processes

SEED = int(os.environ.get("PERENNE_CRASH_SEED") or int.from_bytes(os.urandom(4), "big"))


@pytest.fixture(scope="session", autouse=True)
def reaper() -> None:
    """This process adopts whatever its children leave behind, so that nothing can hide."""
    processes.become_reaper()


@pytest.fixture(autouse=True)
def nobody_survives() -> Iterator[None]:
    """A test that fails on the way takes its victims with it, and whatever they started."""
    yield
    processes.kill_all()
    left = processes.survivors()
    processes.kill_descendants()
    assert not left, "the test left a process"


@pytest.fixture
def seed() -> int:
    """The seed of this run; `PERENNE_CRASH_SEED` repeats one."""
    return SEED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many processes died in this run."""
    if line := figures.keep(SEED):
        terminalreporter.write_line(line)
