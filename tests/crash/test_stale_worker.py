"""A worker that was declared dead by mistake and comes back: its tokens are worth nothing, and it changes nothing.

The mistake is an operator's: the lock files of a worker that stands still are deleted, so that another one can take
what should have proved a death. The first worker then goes on exactly where it stood.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from harness import ledger_file, oracles, sample_oracles, stores
from harness.plan import Request
from harness.sample_app import Task
from harness.sample_trial import SampleTrial

pytestmark = pytest.mark.crash

JOB = "00000000-0000-4000-8000-00000000000"
STANDS_STILL_AT = [
    "run.looked_up",  # before the handler: it will report progress, then try to publish
    "progress.committed",  # in the middle of it
    "run.executed",
    "acknowledge.begun",  # published, about to report
]


@pytest.fixture
def trial(tmp_path: Path) -> SampleTrial:
    """A file to publish, and a job without a publication that waits for it."""
    requests = [
        Request(0, f"{JOB}1", "sample.file", Task(0, boundaries=2)),
        Request(1, f"{JOB}2", "sample.plain", Task(1), depends_on=(f"{JOB}1",)),
    ]
    trial = SampleTrial(tmp_path, requests)
    trial.submit_all()
    return trial


def delete_locks(trial: SampleTrial) -> None:
    """What an operator must never do."""
    locks = list(trial.own.rglob("*.lock"))
    assert locks
    for lock in locks:
        lock.unlink()


@pytest.mark.parametrize("point", STANDS_STILL_AT)
def test_comes_back(trial: SampleTrial, point: str) -> None:
    """Another worker settled its attempt and did the rest; when it goes on, no row changes and nothing is published."""
    late = trial.stopped_worker(point, 1, slots=1)
    delete_locks(trial)
    trial.finish()
    before = trial.ask_always()
    units = stores.published(trial.root)
    late.signal(signal.SIGCONT)
    assert late.end() == 0, trial.said()
    after = trial.ask_always()
    for table in ledger_file.TABLES:
        if table != "owner":
            assert getattr(after, table) == getattr(before, table), table
    assert stores.published(trial.root) == units
    sample_oracles.every_job_ended(after, trial.requests)
    sample_oracles.published_once(after, trial.root)
    assert "stale_report_dropped" in log_of(trial)
    oracles.nothing_is_left(after, trial.root, trial.own)


def test_comes_back_while_the_next_attempt_runs(trial: SampleTrial) -> None:
    """Its job runs again, elsewhere and not yet to its end; its report does not end that attempt."""
    late = trial.stopped_worker("run.executed", 1, slots=1)
    (unit,) = stores.published(trial.root)
    # As if it had not published: the next worker must run the job again.
    (trial.root / stores.FOLDER / f"{unit.id}.json").unlink()
    delete_locks(trial)
    now = trial.stopped_worker("progress.committed", 1, slots=1)
    before = trial.rows()
    late.signal(signal.SIGCONT)
    assert late.end() == 0, trial.said()
    after = trial.rows()
    assert (after.job, after.attempt, after.history) == (before.job, before.attempt, before.history)
    now.signal(signal.SIGCONT)
    assert now.end() == 0, trial.said()
    trial.finish()
    rows = trial.ask_always()
    sample_oracles.every_job_ended(rows, trial.requests)
    sample_oracles.published_once(rows, trial.root)
    assert [(attempt["number"], attempt["outcome"]) for attempt in rows.of("attempt", rows.job[0])] == [
        (1, "interrupted"),
        (2, "completed"),
    ]


def log_of(trial: SampleTrial) -> str:
    """Everything that the engine wrote into its logs."""
    return "".join(path.read_text() for path in (trial.own / "logs").iterdir())
