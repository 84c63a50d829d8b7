"""What a worker says of the jobs that a dead one left, and that one of them which is damaged holds up no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import perenne
from perenne import JobState, testing
from perenne.apps.primes import app, jobs

S = JobState
PRIMES_BELOW_10_000 = b"1229"
BOUND = jobs.Bound(chunk=100, chunks=100)
LIMIT_S = 60


def worker(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A worker of four jobs at once, to its end."""
    words = ["worker", "perenne.apps.primes:app", "--workspace", str(root), "--slots", "4", "--until-idle"]
    return subprocess.run(
        [sys.executable, "-m", "perenne", *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


@pytest.fixture
def left(tmp_path: Path) -> tuple[Path, list[str]]:
    """A workspace whose worker was killed in the middle of four jobs, and the jobs, one with a checkpoint first."""
    root = testing.workspace(tmp_path / "primes", app)
    with perenne.open(root, app) as engine:
        ids = [engine.submit(jobs.KIND, BOUND).job_id for _ in range(4)]
    killed = worker(root, PERENNE_CRASH_POINT="checkpoint.committed:40")  # no job had 40 of its 100 chunks before
    assert killed.returncode == -signal.SIGKILL, killed
    with perenne.open(root, app) as engine:
        assert {engine.job(id).state for id in ids} == {S.RUNNING}
        return root, sorted(ids, key=lambda id: -engine.job(id).progress_done)


def damage(root: Path, id: str) -> None:
    """One byte less in the checkpoint of a job."""
    connection = apsw.Connection(str(root / ".perenne" / "ledger.sqlite"))
    connection.execute(
        "update checkpoint set record = substr(record, 2) where job = (select seq from job where id = ?)", (id,)
    )
    assert connection.changes() == 1
    connection.close()


def test_the_next_worker_says_what_became_of_each(left: tuple[Path, list[str]]) -> None:
    """It counts by state before any job ends anew: what goes on, what a person had paused or cancelled."""
    root, (paused, cancelled, *rest) = left
    with perenne.open(root, app) as engine:
        engine.pause(paused)
        engine.cancel(cancelled)
    ended = worker(root)
    said = ended.stdout.splitlines()
    at = said.index("settled 4 jobs of workers that had died: 2 QUEUED · 1 PAUSED · 1 CANCELLED")
    assert all(line.startswith("COMPLETED") for line in said[at + 1 : -1])
    assert len(said[at + 1 : -1]) == 2
    with perenne.open(root, app) as engine:
        assert [engine.job(id).state for id in (paused, cancelled)] == [S.PAUSED, S.CANCELLED]
        assert [engine.job(id).result for id in rest] == [PRIMES_BELOW_10_000] * 2


def test_a_damaged_job_stops_itself_alone(left: tuple[Path, list[str]]) -> None:
    """The others end as undisturbed, under their old ids; the damaged one waits for a person to begin it anew."""
    root, (damaged, *others) = left
    damage(root, damaged)
    with perenne.open(root, app, access="work") as engine:
        report = engine.work(slots=4)
        assert (report.recovered, report.settled) == (4, {S.QUEUED: 4})
        assert [engine.job(id).result for id in others] == [PRIMES_BELOW_10_000] * 3
        assert engine.job(damaged).state is S.RECOVERY_REQUIRED
        assert "checkpoint" in str(engine.job(damaged).diagnostic)
        engine.resolve(damaged, S.QUEUED, "its checkpoint is damaged", from_start=True)
        report = engine.work()
        assert (report.recovered, report.settled) == (0, {})
        assert engine.job(damaged).result == PRIMES_BELOW_10_000


def test_a_worker_that_finds_nothing_says_nothing_of_it(tmp_path: Path) -> None:
    """Without a dead worker there is no such line."""
    assert "settled" not in worker(testing.workspace(tmp_path / "primes", app)).stdout
