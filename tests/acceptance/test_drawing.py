"""`perenne graph` and `perenne timeline` from the keyboard: as text, JSON and a drawing, and nothing changes by it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

import perenne
from perenne import App, GiveUp, Kind

APP = App(
    "drawn",
    [
        Kind("drawn.plan", 1, lambda context, input: context.submit("drawn.leaf", "good", name="leaf").job_id, None),
        Kind("drawn.leaf", 1, lambda context, word: GiveUp("bad") if word == "bad" else word, str),
    ],
)
Run = Callable[..., str]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A parent with its child, a bad job, and a join over all of them."""
    root = tmp_path / "work"
    perenne.create(root, APP, name="Drawn", specimen=True)
    with perenne.open(root, APP, access="work") as engine:
        plan = engine.submit("drawn.plan", None).job_id
        bad = engine.submit("drawn.leaf", "bad").job_id
        engine.submit("drawn.leaf", "join", depends_on=[plan, bad], on_dependency="continue")
        engine.work()
    return root


@pytest.fixture
def run(workspace: Path) -> Run:
    """`run(words…)`: what the command printed; no name, size or byte of the workspace changed by it."""

    def seen() -> dict[str, str]:
        files = [path for path in workspace.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def command(*words: str, code: int = 0) -> str:
        before = seen()
        ended = subprocess.run(
            [sys.executable, "-m", "perenne", *words, "--workspace", str(workspace)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        )
        assert ended.returncode == code, ended.stderr
        assert seen() == before
        return ended.stdout if code == 0 else ended.stderr

    return command


def test_a_graph_is_told_and_drawn(run: Run) -> None:
    """Each job on a line with what it waits for; the same in JSON; and as a drawing that is well formed."""
    lines = run("graph").splitlines()
    assert [line.split()[2] for line in lines[1:5]] == ["COMPLETED", "FAILED", "COMPLETED", "COMPLETED"]
    assert lines[3].endswith("1, 2*")
    assert all(len(line) <= 80 for line in lines)
    found = json.loads(run("graph", "--json"))
    assert found["contract"] == "perenne.graph.v1"
    assert [edge["waived"] for edge in found["edges"]] == [False, True]
    ElementTree.fromstring(run("graph", "--svg"))


def test_a_part_of_it_is_shown_around_a_job(run: Run) -> None:
    """With a job, what hangs together with it; the two drawings of one ledger are equal."""
    found = json.loads(run("graph", "--json"))
    child = next(node for node in found["nodes"] if node["parent"])
    assert len(run("graph", child["id"]).splitlines()) == 6
    assert len(json.loads(run("graph", child["id"], "--limit", "2", "--json"))["nodes"]) == 2
    assert run("graph", "--svg") == run("graph", "--svg")
    assert "no job ffff" in run("graph", "ffff", code=2)


def test_a_timeline_is_told_and_drawn(run: Run) -> None:
    """Each attempt on a line with its outcome and its time; the same in JSON and as a drawing."""
    lines = run("timeline").splitlines()
    assert [line.split()[3] for line in lines[2:]].count("completed") == 3
    assert all(len(line) <= 80 for line in lines)
    found = json.loads(run("timeline", "--json"))
    assert (found["contract"], len(found["attempts"])) == ("perenne.timeline.v1", 4)
    ElementTree.fromstring(run("timeline", "--svg"))
    assert "give --json or --svg" in run("timeline", "--svg", "--json", code=2)
