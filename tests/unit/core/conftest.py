"""Fixtures of the rules: a job as the ledger would read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perenne.core.job import Job, OnDependency
from perenne.core.states import JobState

NOW = 1_800_000_000_000_000
FIRST_ATTEMPT = "5e1f0000000000000000000000000001"


def made_job(state: JobState = JobState.RUNNING, **other: Any) -> Job:
    """A job in a state: RUNNING it is in its first of three attempts, elsewhere it has spent none."""
    running = state is JobState.RUNNING
    values: dict[str, Any] = {
        "seq": 1,
        "id": "01998d3b-0000-7000-8000-000000000001",
        "kind": "test.work",
        "version": 1,
        "queue": "default",
        "state": state,
        "reason": "as_made",
        "priority": 0,
        "rank": NOW,
        "submitted_at": NOW,
        "due_at": 0,
        "key": None,
        "unique_key": None,
        "input": b"{}",
        "publications": "{}",
        "requested_at": NOW,
        "on_dependency": OnDependency.BLOCK,
        "unmet": 0,
        "max_attempts": 3,
        "spent": int(running),
        "number": int(running),
        "failures": 0,
        "interruptions": 0,
        "attempt": FIRST_ATTEMPT if running else None,
        "cancel_asked": False,
        "pause_asked": False,
        "active_ms": 0,
        "active_limit_ms": None,
        "progress_done": 0,
        "progress_total": None,
        "progress_message": None,
        "result": None,
        "diagnostic": None,
        "updated_at": NOW,
        "finished_at": None,
        "revision": 1,
    }
    return Job(**{**values, **other})


@pytest.fixture(scope="session")
def now() -> int:
    """An instant, UTC microseconds."""
    return NOW


@pytest.fixture(scope="session")
def make_job() -> Callable[..., Job]:
    """`make_job(state, **fields)`: a job in that state; session-wide, because it keeps nothing."""
    return made_job
