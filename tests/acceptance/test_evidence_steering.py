"""Steering Evidence from other processes: pause, resume, stop, cancel, signals, also while ExifTool runs."""

from __future__ import annotations

import json
import os
import select
import time
from pathlib import Path
from typing import Any

import pytest

PICTURE_JOB = "82000000-0000-4000-8000-000000000021"
SLOW_EXIFTOOL = """#!/bin/sh
if [ "$3" = -ver ]; then echo 12.57; exit 0; fi
echo $$ > pid
while :; do :; done
"""  # confined to its stage it may start nothing else


def written_by_the_tool(workspace: Path, within_s: float = 30.0) -> int:
    """The process id that the tool wrote into its stage."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for found in (workspace / ".labfy/runtime/stage").glob("*/pid"):
            if (text := found.read_text()).endswith("\n"):
                return int(text)
        time.sleep(0.01)  # reason: a confined tool can reach nobody who would wake us
    raise AssertionError(f"no tool began within {within_s:g} s")


def snapshot(workspace: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((workspace / "jobs-snapshot.json").read_bytes())
    return value


def states(perenne: Any, workspace: Path) -> list[str]:
    return [job["state"] for job in perenne.jobs(workspace)]


def test_pause_stop_and_resume_hold_new_starts(perenne: Any, case: Path) -> None:
    """A paused or stopped workspace starts nothing and says so; resume lets a worker go on."""
    perenne.done("enqueue", "--workspace", case)
    for verb in ("pause", "stop"):
        perenne.done(verb, "--workspace", case)
        said = perenne.done("run", "--workspace", case).splitlines()
        assert said[-1] == f"the workspace is {'stopped' if verb == 'stop' else 'paused'}; " + (
            "`perenne evidence resume` lets new jobs start"
        )
        assert states(perenne, case) == ["QUEUED"] * 6
    assert "paused and stopped: nothing new is started" in perenne.done("status", "--workspace", case)
    perenne.done("resume", "--workspace", case)
    perenne.done("run", "--workspace", case)
    assert states(perenne, case) == ["COMPLETED"] * 6


def test_one_job_is_paused_resumed_and_cancelled(perenne: Any, case: Path) -> None:
    """A paused job is passed over, a resumed one runs, a cancelled one stays cancelled and is exported so."""
    perenne.done("enqueue", "--workspace", case)
    first, second = (job["job_id"] for job in perenne.jobs(case)[:2])
    assert perenne.done("pause", first, "--workspace", case) == f"{first}  PAUSED\n"
    assert perenne.done("cancel", second, "--workspace", case) == f"{second}  CANCELLED\n"
    assert {job["job_id"]: job["state"] for job in snapshot(case)["jobs"]}[second] == "CANCELLED"
    perenne.done("run", "--workspace", case)
    assert states(perenne, case) == ["PAUSED", "CANCELLED"] + ["COMPLETED"] * 4
    assert perenne.done("resume", first, "--workspace", case) == f"{first}  QUEUED\n"
    perenne.done("run", "--workspace", case)
    assert states(perenne, case) == ["COMPLETED", "CANCELLED"] + ["COMPLETED"] * 4


def test_a_staying_worker_is_woken_and_stopped_from_outside(perenne: Any, case: Path) -> None:
    """An idle worker does a job as soon as it is submitted, and ends when the workspace is stopped."""
    worker = perenne.start("run", "--stay", "--workspace", case)
    assert worker.stdout.readline() == "0 jobs to do; stays until `perenne evidence stop` or Ctrl-C\n"
    perenne.done("enqueue", "--workspace", case)
    for _ in range(6):
        assert "COMPLETED" in worker.stdout.readline()
    perenne.done("stop", "--workspace", case)
    out, err = worker.communicate(timeout=30)
    assert (worker.returncode, err) == (0, "")
    assert "the workspace is stopped" in out


def test_a_terminated_worker_loses_nothing(perenne: Any, case: Path) -> None:
    """SIGTERM ends a worker in order; what it did not begin waits, and nothing is recorded as cancelled (T-7)."""
    perenne.done("enqueue", "--workspace", case)
    worker = perenne.start("run", "--stay", "--workspace", case)
    assert worker.stdout.readline().startswith("6 jobs to do")
    assert "COMPLETED" in worker.stdout.readline()
    worker.terminate()
    worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert set(states(perenne, case)) <= {"QUEUED", "COMPLETED"}
    perenne.done("run", "--workspace", case)
    assert states(perenne, case) == ["COMPLETED"] * 6


@pytest.mark.parametrize(
    ("words", "state", "code"),
    [(["cancel", PICTURE_JOB], "CANCELLED", 0), (["pause", PICTURE_JOB], "PAUSED", 0), (["stop"], "QUEUED", 0)],
    ids=["cancel", "pause", "stop"],
)
def test_a_running_exiftool_ends_with_its_job(
    perenne: Any, specimen: Path, tmp_path: Path, namespace: Any, words: list[str], state: str, code: int
) -> None:
    """A word from another process ends ExifTool in the middle of a picture; its private copy is gone."""
    fake = tmp_path / "exiftool"
    fake.write_text(SLOW_EXIFTOOL)
    fake.chmod(0o755)
    if not Path("/usr/bin/exiftool").exists():
        pytest.skip("NOT CHECKED: there is no ExifTool to mount a slow one over")
    worker = perenne.start("run", "--workspace", specimen, wrap=namespace(f"mount --bind {fake} /usr/bin/exiftool"))
    tool = os.pidfd_open(written_by_the_tool(specimen))
    assert len(list((specimen / ".labfy/runtime/stage").iterdir())) == 1
    perenne.done(*words, "--workspace", specimen)
    assert select.select([tool], [], [], 5)[0]
    out, err = worker.communicate(timeout=30)
    assert (worker.returncode, err) == (code, ""), out
    picture = perenne.jobs(specimen)[1]
    assert (picture["state"], picture["attempt_count"]) == (state, 1)
    assert list((specimen / ".labfy/runtime/stage").iterdir()) == []
    assert not list((specimen / "02_Preuves_Traitees/Extractions/ExifTool").iterdir())
    os.close(tool)
