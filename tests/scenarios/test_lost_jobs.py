"""Section 3.3, lost jobs: a job is a row from its submit to long after its end, and everything else is a hint."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scenario_stage import PROGRAM, Stage, until

from perenne import JobState, crashpoints
from perenne.errors import StoreFailed
from perenne.runtime.wake import Bell

POINTS = [
    "claim.written",
    "claim.committed",
    "run.looked_up",
    "publish.begun",
    "run.executed",
    "acknowledge.written",
    "acknowledge.committed",
]


def test_c15_the_row_survives_every_death_of_its_worker(stage: Stage) -> None:
    """Thread: a worker was killed and its job was gone, for taking a job had deleted it.

    Killed at each step from claim to acknowledgement, the job is still there afterwards, and ends with its page
    written once.
    """
    with stage.open() as engine:
        for point in POINTS:
            job = stage.submit(engine, "publish", kind="page")
            stage.dies(PERENNE_CRASH_POINT=point)
            found = engine.job(job)
            assert found.is_final == (point == "acknowledge.committed"), point
            with stage.open("work") as worker:
                worker.work()
            assert engine.job(job).state is JobState.COMPLETED, point
            assert stage.written().count(job) == 1, point
    stage.assert_sound()


def test_c16_interrupted_jobs_return_by_themselves(stage: Stage) -> None:
    """Thread: jobs of a killed worker stayed as they were unless the user wrote a periodic task that looks for them.

    With nothing configured and nobody asking, an idle worker takes over, and a later one would at its start.
    """
    with stage.open() as engine, stage.worker() as dying:
        job = stage.submit(engine, "wait", "")
        stage.until_runs(job)
        with stage.worker() as idle:
            dying.kill()
            ended = engine.wait(job, 20)
        assert (ended.state, ended.result) == (JobState.COMPLETED, str(idle.pid).encode())
        again = stage.submit(engine, "die", "")
        stage.dies()
        with stage.open("work") as later:
            assert later.work().recovered == 1
        assert engine.job(again).state is JobState.COMPLETED
        assert len(engine.jobs()) == 2, "nothing but our own jobs was ever submitted"


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_c17_the_ledger_is_opened_in_one_way_only(stage: Stage, end: str) -> None:
    """Thread: commits reported success and then vanished, for the process had opened and closed the file once more,
    which drops its locks.

    While a workspace is open no other opening of its files succeeds in this process, the locks stay, and what is
    committed after each try is seen by others.
    """
    file = Path(f"{stage.workspace.ledger}{end}")
    ways: list[Callable[[], object]] = [
        lambda: open(file, "rb").close(),
        lambda: os.close(os.open(file, os.O_RDONLY)),
        lambda: shutil.copy(file, stage.folder / "backup"),
        lambda: file.read_bytes(),
        lambda: sqlite3.connect(file).close(),
    ]
    with stage.open() as engine:
        for count, way in enumerate(ways, 1):
            with pytest.raises(StoreFailed, match="which this process has open"):
                way()
            # Another process that comes and goes would, without our locks, be the last to close and remove the WAL.
            assert stage.sql("select count(*) from job") == [[count - 1]]
            stage.submit(engine)
            assert stage.sql("select count(*) from job") == [[count]]
    stage.assert_sound()


def test_c18_the_wake_up_is_only_a_hint_and_comes_after_the_commit(stage: Stage) -> None:
    """Thread: the message about a job was sent inside the open transaction; it arrived before the job, or instead.

    No waiting process is rung before the row is durable, and a job whose submitter died before ringing runs all the
    same.
    """
    with stage.open() as engine, Bell(stage.workspace.wake_folder) as bell:
        rung: dict[str, bool] = {}
        crashpoints.observe(lambda point: rung.update({point: bool(bell.wait(0))}))
        try:
            stage.submit(engine)
        finally:
            crashpoints.observe(None)
        assert rung == {"submit.written": False, "submit.committed": False, "submit.woken": True}
    with stage.worker("LONGEST_SLEEP_S=0.2"), stage.open() as engine:
        until(lambda: engine.counts() == {JobState.COMPLETED: 1})
        for point, jobs in (("submit.written", 1), ("submit.committed", 2)):
            command = [sys.executable, str(PROGRAM), str(stage.root), f"submit={json.dumps(stage.plan())}"]
            killed = subprocess.run(command, env=os.environ | {crashpoints.VARIABLE: point}, timeout=60)
            assert killed.returncode == -9
            until(lambda jobs=jobs: engine.counts() == {JobState.COMPLETED: jobs})  # type: ignore[misc]
