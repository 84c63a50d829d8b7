"""A crash point is armed by one variable, in specimen workspaces only, by a name that exists, for a count from one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.evidence_trial import MAILS

from perenne import crashpoints

pytestmark = pytest.mark.crash

REFUSED, USAGE = 3, 2


def evidence(*words: object, point: str | None = None) -> subprocess.CompletedProcess[str]:
    """`perenne evidence …` in a process of its own, armed with a point."""
    environment = {**os.environ, **({crashpoints.VARIABLE: point} if point is not None else {})}
    command = [sys.executable, "-m", "perenne", "evidence", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def specimen(tmp_path: Path) -> Path:
    """A specimen with one job to do."""
    root = tmp_path / "specimen"
    assert evidence("init-specimen", "--workspace", root).returncode == 0
    assert evidence("enqueue", "--workspace", root).returncode == 0
    return root


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """An investigation that is no specimen, with one job to do."""
    root = tmp_path / "real"
    assert evidence("create", "--workspace", root, "--title", "Case").returncode == 0
    assert evidence("import", "--workspace", root, MAILS[0]).returncode == 0
    assert evidence("enqueue", "--workspace", root).returncode == 0
    return root


def contents(root: Path) -> dict[str, bytes]:
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("words", [("run",), ("export",), ("pause",), ("import", MAILS[1])], ids=lambda words: words[0])
def test_no_command_is_armed_in_a_real_workspace(real: Path, words: tuple[str, ...]) -> None:
    """With the variable set, every command that could die in a real workspace is refused at its start, naming it."""
    before = contents(real)
    ended = evidence(words[0], "--workspace", real, *words[1:], point="claim.committed")
    assert ended.returncode == USAGE, ended
    assert f"{crashpoints.VARIABLE}=claim.committed" in ended.stderr
    assert "specimen" in ended.stderr
    assert contents(real) == before


def test_no_real_workspace_is_made_armed(tmp_path: Path) -> None:
    """With the variable set no real workspace is made, and nothing of it is left."""
    ended = evidence("create", "--workspace", tmp_path / "new", "--title", "Case", point="create.staged")
    assert ended.returncode == USAGE, ended
    assert list(tmp_path.iterdir()) == []


WRONG = ["", "nowhere", "claim", *(f"claim.committed:{count}" for count in ("", "0", "-1", "1.5", "٣", "9" * 5000))]


@pytest.mark.parametrize("name", WRONG, ids=lambda name: name[:20] or "empty")
def test_unknown_names_are_refused(specimen: Path, name: str) -> None:
    """A name that is none, and a count that is none, is refused at the start; what is known is said."""
    before = contents(specimen)
    ended = evidence("run", "--workspace", specimen, point=name)
    assert ended.returncode == USAGE, ended
    assert crashpoints.VARIABLE in ended.stderr
    assert "claim.committed" in ended.stderr
    assert contents(specimen) == before


@pytest.mark.parametrize("count", [2, 3])
def test_count_says_which_passage(specimen: Path, count: int) -> None:
    """`name:n` dies at the n-th passage: of four imported files n - 1 are in the folder under their names."""
    ended = evidence("import", "--workspace", specimen, *MAILS[:4], point=f"import.staged:{count}")
    assert ended.returncode == -signal.SIGKILL, ended
    folder = specimen / "01_Preuves_Originales" / "Emails"
    assert len(list(folder.glob("*.stage-import"))) == 1
    assert len(list(folder.glob("*.eml"))) == 1 + count - 1  # the specimen's own mail stands there too


def test_reading_is_not_armed(specimen: Path) -> None:
    """A command that only reads passes no point, and says what it is asked for."""
    ended = evidence("status", "--workspace", specimen, point="claim.committed")
    assert ended.returncode == 0, ended


def test_unarmed_is_undisturbed(specimen: Path) -> None:
    """Without the variable no process dies."""
    assert evidence("run", "--workspace", specimen).returncode in (0, 4)
