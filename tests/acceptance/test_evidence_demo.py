"""The demonstrations, run as a stranger runs them: crashes that really happen, and what stands after them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne.apps.evidence.images.exiftool import INSTALL_COMMAND

ROOT = Path(__file__).parents[2]
MAIL_JOB = "82000000-0000-4000-8000-000000000011"
PICTURE_JOB = "82000000-0000-4000-8000-000000000021"


def extraction_ids(workspace: Path) -> list[str]:
    """Read behind the program's back; no process lives in the workspace any more."""
    connection = apsw.Connection(str(workspace / "Enquete.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [row[0] for row in connection.execute("select id from extractions order by id")]
    finally:
        connection.close()


@pytest.mark.usefixtures("with_exiftool")
def test_demo_is_killed_twice_and_ends_complete(perenne: Any, tmp_path: Path) -> None:
    """Two workers die by SIGKILL after publishing; both jobs end COMPLETED after one attempt, with two extractions."""
    ended = perenne("demo", "--workspace", tmp_path / "demo")
    assert ended.code == 0, ended
    assert ended.out.count("ok  the worker was killed by SIGKILL") == 2
    assert ended.out.count("is published (") == 2
    assert "NO" not in ended.out.split()
    found = {job["job_id"]: job for job in perenne.jobs(tmp_path / "demo")}
    assert found.keys() == {MAIL_JOB, PICTURE_JOB}
    for job in found.values():
        assert (job["state"], job["diagnostic"]) == ("COMPLETED", "recovered_after_publish")
        assert (job["reason"], job["attempt_count"]) == ("recovered_after_publish", 1)
    expected = [f"82000000-0000-4000-8000-0000000000{number}" for number in (12, 22)]
    assert extraction_ids(tmp_path / "demo") == expected


@pytest.mark.usefixtures("with_exiftool")
def test_running_again_after_the_demo_changes_nothing(perenne: Any, tmp_path: Path, tree: Any) -> None:
    """One more worker, and one more demo in the same folder, leave every row, artefact and snapshot as it was."""
    workspace = tmp_path / "demo"
    perenne.done("demo", "--workspace", workspace)

    def kept() -> dict[str, object]:
        return {name: seen for name, seen in tree(workspace).items() if not name.startswith(".labfy/runtime/")}

    before, jobs = kept(), perenne.jobs(workspace)
    perenne.done("run", "--workspace", workspace)
    again = perenne("demo", "--workspace", workspace)
    assert (again.code, again.out) == (3, "")
    assert kept() == before
    assert perenne.jobs(workspace) == jobs


def test_demo_without_exiftool_does_the_mail_half(perenne: Any, tmp_path: Path, without_exiftool: list[str]) -> None:
    """Where ExifTool is missing the mail is killed and recovered, and the picture waits, naming the install command."""
    ended = perenne("demo", "--workspace", tmp_path / "demo", wrap=without_exiftool)
    assert ended.code == 4, ended
    assert ended.out.count("ok  the worker was killed by SIGKILL") == 1
    assert "NO" not in ended.out.split()
    mail, picture = perenne.jobs(tmp_path / "demo")
    assert (mail["state"], mail["diagnostic"]) == ("COMPLETED", "recovered_after_publish")
    assert (picture["state"], picture["reason"], picture["attempts_left"]) == ("BLOCKED", "tool_missing", 3)
    assert INSTALL_COMMAND in picture["diagnostic"]
    assert len(extraction_ids(tmp_path / "demo")) == 1


@pytest.mark.usefixtures("with_exiftool")
def test_a_blocked_picture_goes_on_once_exiftool_is_found(
    perenne: Any, specimen: Path, without_exiftool: list[str]
) -> None:
    """The picture that waited for ExifTool is done by the next worker that finds it."""
    blocked = perenne("run", "--workspace", specimen, wrap=without_exiftool)
    assert blocked.code == 4, blocked
    assert INSTALL_COMMAND in blocked.out
    assert perenne("run", "--workspace", specimen).code == 0
    assert [job["state"] for job in perenne.jobs(specimen)] == ["COMPLETED", "COMPLETED"]


@pytest.mark.usefixtures("with_exiftool")
def test_a_recovered_picture_needs_no_exiftool(perenne: Any, specimen: Path, without_exiftool: list[str]) -> None:
    """A picture that was published before the crash is completed where its tool is no longer installed."""
    perenne("run", "--workspace", specimen, PERENNE_CRASH_POINT="publish.committed:2")
    ended = perenne("run", "--workspace", specimen, wrap=without_exiftool)
    assert ended.code == 0, ended
    assert perenne.jobs(specimen)[1]["diagnostic"] == "recovered_after_publish"


@pytest.mark.usefixtures("with_exiftool")
@pytest.mark.parametrize("seed", ["3", "4305"])
def test_samples_are_analysed_in_spite_of_a_random_kill(seed: str) -> None:
    """The example kills its worker once and ends with every file analysed, shown within 80 columns."""
    command = [sys.executable, str(ROOT / "examples/evidence/demo.py"), seed]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert ended.returncode == 0, ended
    lines = ended.stdout.splitlines()
    assert lines[-1].endswith("nothing lost, nothing done twice, nothing left over.")
    assert sum(line.startswith("own-") and line.endswith("COMPLETED") for line in lines) == 12
    assert not [line for line in lines if len(line) > 80 and "/" not in line]
    assert ended.stderr == ""
