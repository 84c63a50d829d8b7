"""A log line is JSON, whatever is said; the file of a job is bounded; and nothing that happens to it fails a job."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from perenne.files.workspace import Workspace
from perenne.runtime.joblog import ATTEMPT_BYTES, JobLog
from perenne.testing import START_US, FakeClock


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path, "id", "name", "app")
    made.make_folders()
    return made


def log_of(workspace: Workspace, number: int = 1) -> JobLog:
    return JobLog(workspace, "job", number, FakeClock())


def lines(workspace: Workspace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in workspace.log_of("job").read_text(encoding="utf-8").splitlines()]


def test_a_line_says_when_which_attempt_and_what(workspace: Workspace) -> None:
    """Each line bears its time, its attempt, its level, its message and the fields given; the file is private."""
    log_of(workspace, 2).write("warning", "é is odd", size=3, names=["a"], nothing=None)
    assert lines(workspace) == [
        {
            "at": START_US,
            "attempt": 2,
            "level": "warning",
            "message": "é is odd",
            "size": 3,
            "names": ["a"],
            "nothing": None,
        }
    ]
    assert stat.S_IMODE(workspace.log_of("job").stat().st_mode) == 0o600


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "value", ["\udcff", 2**100, object(), Broken(), {1: {2: 3}}, {("a", 1): 2}, float("nan"), b"\xff", {"\udcff": 1}]
)
def test_any_value_can_be_said(workspace: Workspace, value: object) -> None:
    """What JSON cannot hold is shown in some other way; the line and its message stand."""
    log_of(workspace).write("info", "said", value=value)
    log_of(workspace).write("info", "after \udcff")
    first, second = lines(workspace)
    assert (first["message"], "value" in first) == ("said", True)
    assert second["message"].startswith("after ")


def test_an_attempt_has_its_bound(workspace: Workspace) -> None:
    """At most 1 MiB an attempt is kept, whole lines only; what comes after is counted; the next attempt has its own."""
    log = log_of(workspace)
    for _ in range(1100):
        log.write("info", "x" * 1000)
    size_bytes = workspace.log_of("job").stat().st_size
    assert ATTEMPT_BYTES - 1200 < size_bytes <= ATTEMPT_BYTES
    assert len(lines(workspace)) + log.dropped == 1100
    log.write("info", "y")
    log_of(workspace, 2).write("info", "z" * 1000)
    assert [line["message"][0] for line in lines(workspace)[-2:]] == ["y", "z"]


def test_a_line_larger_than_the_bound_is_dropped(workspace: Workspace) -> None:
    """One line that is too large is not cut: it is counted, and smaller ones are still kept."""
    log = log_of(workspace)
    log.write("info", "x" * (ATTEMPT_BYTES + 1))
    log.write("info", "small")
    assert (log.dropped, [line["message"] for line in lines(workspace)]) == (1, ["small"])


@pytest.mark.parametrize("obstacle", ["folder is gone", "a folder is there", "a link is there"])
def test_a_log_that_cannot_be_written_fails_nobody(workspace: Workspace, tmp_path: Path, obstacle: str) -> None:
    """Whatever stands in the way, writing returns; the first reason is kept, and a link is not followed."""
    path = workspace.log_of("job")
    if obstacle == "folder is gone":
        path.parent.rmdir()
    elif obstacle == "a folder is there":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    log = log_of(workspace)
    log.write("info", "lost")
    log.write("info", "lost too")
    assert log.failed is not None
    assert str(path) in log.failed
    assert not (tmp_path / "elsewhere").exists()


def test_lines_of_many_threads_stay_whole(workspace: Workspace) -> None:
    """Threads that write at the same time never mix their lines."""
    log = log_of(workspace)

    def write(name: str) -> None:
        for _ in range(100):
            log.write("info", name * 200)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    messages = [line["message"] for line in lines(workspace)]
    assert len(messages) == 400
    assert all(message == message[0] * 200 for message in messages)
