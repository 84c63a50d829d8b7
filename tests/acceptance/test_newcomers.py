"""What a newcomer met: purged results, doubt that no command could end, empty words, half-made workspaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perenne as door
from perenne import App
from perenne.errors import InvalidInput


def run(*words: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERENNE_")}
    argv = [sys.executable, "-m", "perenne", *map(str, words)]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)


def test_what_was_published_is_not_asked_for_again(case: Path, perenne: Any) -> None:
    """After a purge the results stand in the catalogue, and enqueueing again has nothing to do."""
    perenne.done("enqueue", "--workspace", case)
    perenne.done("run", "--workspace", case)
    assert run("purge", "--keep", "1", "--workspace", case).returncode == 0
    assert perenne.done("enqueue", "--workspace", case) == "nothing to enqueue\n"


def test_a_person_ends_a_doubt_from_the_command_line(case: Path, perenne: Any, tmp_path: Path) -> None:
    """A folder that was replaced by a link puts jobs in doubt; put back, each job is resolved and completes."""
    perenne.done("enqueue", "--workspace", case)
    derived = case / "02_Preuves_Traitees"
    derived.rename(tmp_path / "away")
    derived.symlink_to(tmp_path / "away")
    assert perenne("run", "--workspace", case).code == 4
    derived.unlink()
    (tmp_path / "away").rename(derived)
    for job in perenne.jobs(case):
        ended = run("resolve", job["job_id"], "queued", "--reason", "the folder is back", "--workspace", case)
        assert ended.returncode == 0, ended
    perenne.done("run", "--workspace", case)
    assert {job["state"] for job in perenne.jobs(case)} == {"COMPLETED"}


@pytest.mark.parametrize("words", [["doctor"], ["purge", "--keep", "1"], ["evidence", "create", "--title", "x"]])
def test_an_empty_folder_name_is_refused(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forgotten variable never means the current folder."""
    monkeypatch.chdir(tmp_path)
    ended = run(*words, "--workspace", "")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []


def test_nobody_listening_is_no_fault(tmp_path: Path) -> None:
    """With its standard output closed a command still does its work."""
    ended = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m perenne version >&-"], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": {"default": 0}},
        {"queues": {"default": "5"}},
        {"runtime": "../out"},
        {"runtime": "/etc"},
        {"runtime": ""},
        {"name": ""},
        {"name": 'a\nb"'},
    ],
)
def test_an_app_that_could_not_be_opened_is_refused(wrong: dict[str, Any]) -> None:
    """Names, bounds and places are checked before anything is made."""
    with pytest.raises(InvalidInput):
        App(**({"name": "x", "kinds": []} | wrong))


@pytest.mark.parametrize("wrong", [{"name": None}, {"name": ""}, {"name": "x", "id": "zz"}])
def test_a_workspace_that_could_not_be_opened_is_not_made(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """A bad name or id is refused, and nothing is left of the try."""
    with pytest.raises(InvalidInput):
        door.create(tmp_path / "w", App("x"), **wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_access_is_refused(tmp_path: Path) -> None:
    """No word but the three opens anything."""
    door.create(tmp_path / "w", App("x"), name="x")
    with pytest.raises(InvalidInput, match="rite"):
        door.open(tmp_path / "w", App("x"), access="rite")  # type: ignore[arg-type]
