"""A worker that is killed while a handler submits: its next attempt finds what was stored, and stores the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import family_app
import pytest

import perenne
from perenne import JobState, testing

WORK = "import sys, perenne, family_app; perenne.open(sys.argv[1], family_app.app, access='work').work()"
STORED = {"submit.written": "[false,false]", "submit.committed": "[true,false]", "submit.woken:2": "[true,true]"}


@pytest.mark.parametrize("way", ["thread", "process", "coroutine"])
@pytest.mark.parametrize("point", STORED)
def test_children_are_stored_once_over_a_kill(tmp_path: Path, way: str, point: str) -> None:
    """Killed before the commit, behind it, and behind the last one: two children each time, and both are done."""
    root = testing.workspace(tmp_path / "work", family_app.app)
    with perenne.open(root, family_app.app) as engine:
        parent = engine.submit(f"parent.{way}", {"orders": [{"name": "a"}, {"name": "b"}]}).job_id
    killed = work(root, PERENNE_CRASH_POINT=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert work(root).returncode == 0
    with perenne.open(root, family_app.app, access="read") as engine:
        job = engine.job(parent)
        assert (job.state, job.number) == (JobState.COMPLETED, 2)
        assert (job.result or b"").decode() == STORED[point]
        children = [one for one in engine.jobs() if one.parent == parent]
        assert [child.state for child in children] == [JobState.COMPLETED] * 2


def work(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One worker process, until nothing is due or it dies."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", WORK, str(root)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
