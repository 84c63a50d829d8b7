"""A task with `isolation="process"`: the same function and arguments, without a ledger."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import child_tasks
import pytest

import perenne
from perenne import Engine, JobState, testing

S = JobState


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    root = testing.workspace(tmp_path / "work", child_tasks.app)
    monkeypatch.setenv("PERENNE_WORKSPACE", str(root))
    with perenne.open(root, child_tasks.app, access="work") as opened:
        yield opened


def test_a_task_runs_in_a_child(engine: Engine) -> None:
    """The arguments reach the function in another process, and its return is the result."""
    job = child_tasks.fold.enqueue(2, paper="blue")
    engine.work()
    assert engine.job(job.job_id).result == b'{"times":2,"paper":"blue"}'


def test_what_a_task_enqueues_in_a_process_of_its_own_is_its_child(engine: Engine) -> None:
    """The worker stores it under the token of the attempt; no workspace is opened for it."""
    job = child_tasks.enqueues.enqueue(2)
    engine.work()
    assert engine.job(job.job_id).result == b'"enqueued"'
    (child,) = [one for one in engine.jobs() if one.parent == job.job_id]
    assert (child.kind, child.result) == ("fold", b'{"times":2,"paper":"white"}')


def test_a_child_completes_without_rows(engine: Engine) -> None:
    """`complete` gives the result; with `also` it is refused there and then, since it could not be called."""
    plain, rows = child_tasks.completes.enqueue(False), child_tasks.completes.enqueue(True)
    engine.work()
    assert engine.job(plain.job_id).result == b'"done"'
    refused = engine.job(rows.job_id)
    assert (refused.state, refused.number) == (S.FAILED, 1)
    assert "a child has none" in (refused.diagnostic or "")
