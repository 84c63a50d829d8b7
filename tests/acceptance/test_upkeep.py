"""The operator's commands from outside: doctor, migrate, backup, restore, export, import, purge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """`perenne …` in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERENNE_")}
    argv = [sys.executable, "-m", "perenne", *map(str, words)]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)


def done(*words: object) -> str:
    ended = run(*words)
    assert ended.returncode == 0, ended
    return ended.stdout


def states(perenne: Any, workspace: Path) -> list[str]:
    return [job["state"] for job in perenne.jobs(workspace)]


def test_a_sound_workspace_has_nothing_to_report(specimen: Path) -> None:
    """The doctor finds every promise kept, as words and as JSON."""
    assert "BAD" not in done("doctor", "--workspace", specimen, "--deep")
    findings = json.loads(done("doctor", "--workspace", specimen, "--json"))
    assert {finding["verdict"] for finding in findings} == {"ok"}


def test_the_doctor_reads_only(specimen: Path, tree: Callable[[Path], Any]) -> None:
    """Looking changes no byte and no name."""
    before = tree(specimen)
    done("doctor", "--workspace", specimen, "--deep")
    assert tree(specimen) == before


def test_a_loose_permission_is_named_with_its_mend(specimen: Path) -> None:
    """What is wrong comes with a next step, and with exit code 4 when a promise is not kept."""
    ledger = specimen / ".labfy" / "runtime" / "ledger.sqlite"
    ledger.unlink()
    ended = run("doctor", "--workspace", specimen)
    assert ended.returncode == 4
    assert "ledger.sqlite missing" in ended.stdout
    assert "→ restore a backup" in ended.stdout


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_doctor_keeps_to_the_width(specimen: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """No line is wider than the terminal, and what is folded stands below where its sentence began."""
    monkeypatch.setenv("COLUMNS", str(width))
    lines = done("doctor", "--workspace", specimen).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line[:20].strip() or line[20] not in " " for line in lines)


def test_copies_say_what_is_not_in_them(specimen: Path, tmp_path: Path) -> None:
    """The last line of a backup and of an export says that the application's own files are not in it."""
    for verb in ("backup", "export"):
        assert done(verb, tmp_path / verb, "--workspace", specimen).splitlines()[-1].startswith("the ledger alone: ")


def test_a_lost_original_is_bad(specimen: Path) -> None:
    """The doctor asks the application: an original that is gone is named, with exit code 4."""
    next((specimen / "01_Preuves_Originales").rglob("*.eml")).unlink()
    ended = run("doctor", "--workspace", specimen)
    assert ended.returncode == 4
    assert "BAD  originals" in ended.stdout


def test_a_backup_brings_the_jobs_back(specimen: Path, perenne: Any, tmp_path: Path) -> None:
    """A restored workspace stands where the backup was made, and works on from there, each result once."""
    done("backup", tmp_path / "one.sqlite", "--workspace", specimen)
    perenne.done("run", "--workspace", specimen)
    assert states(perenne, specimen) == ["COMPLETED", "COMPLETED"]
    done("restore", tmp_path / "one.sqlite", "--workspace", specimen)
    assert states(perenne, specimen) == ["QUEUED", "BLOCKED"]
    perenne.done("run", "--workspace", specimen)
    jobs = perenne.jobs(specimen)
    assert [job["state"] for job in jobs] == ["COMPLETED", "COMPLETED"]


def test_a_backup_is_never_overwritten(specimen: Path, tmp_path: Path) -> None:
    """A file that is there is kept, and said so in one line."""
    (tmp_path / "one.sqlite").write_text("mine")
    ended = run("backup", tmp_path / "one.sqlite", "--workspace", specimen)
    assert ended.returncode == 3
    assert ended.stderr.count("\n") == 1
    assert (tmp_path / "one.sqlite").read_text() == "mine"


def test_a_live_workspace_is_not_restored(specimen: Path, tmp_path: Path) -> None:
    """While somebody has the workspace open, restoring is refused naming it, and nothing changes."""
    import perenne as door
    from perenne.apps.evidence import app

    done("backup", tmp_path / "one.sqlite", "--workspace", specimen)
    with door.open(specimen, app) as engine:
        before = [job.revision for job in engine.jobs()]
        ended = run("restore", tmp_path / "one.sqlite", "--workspace", specimen)
        assert ended.returncode == 3, ended
        assert str(os.getpid()) in ended.stderr
        assert [job.revision for job in engine.jobs()] == before


def test_an_export_comes_in_whole_or_not_at_all(specimen: Path, case: Path, tmp_path: Path) -> None:
    """A new workspace takes the file once; a workspace with a history, and an edited file, are refused."""
    file = tmp_path / "case.jsonl"
    done("export", file, "--workspace", specimen)
    assert run("import", file, "--workspace", specimen).returncode == 3
    edited = tmp_path / "edited.jsonl"
    edited.write_bytes(file.read_bytes().replace(b'"QUEUED"', b'"BLOCKED"', 1))
    ended = run("import", edited, "--workspace", case)
    assert ended.returncode in (2, 3), ended
    assert "line" in ended.stderr
    done("import", file, "--workspace", case)
    assert "imported before" in done("import", file, "--workspace", case)


def test_purging_needs_a_rule(specimen: Path, perenne: Any) -> None:
    """Without an age or a number nothing is removed; with one, finished jobs go and the rest stays."""
    perenne.done("run", "--workspace", specimen)
    for words, said in (
        ([], "give --older-than-days, --keep, or both"),
        (["--older-than-days", "-1"], "--older-than-days: -1, the limit is 0 to 11574 days; give a number in it"),
        (["--older-than-days", "nan"], "--older-than-days: nan, the limit is 0 to 11574 days"),
        (["--keep", "-1"], "keep: -1, the limit is 0 to 2147483648; give a whole number in it"),
    ):
        ended = run("purge", *words, "--workspace", specimen)
        assert ended.returncode == 2
        assert said in ended.stderr
    assert len(perenne.jobs(specimen)) == 2
    assert "removed" in done("purge", "--keep", "1", "--workspace", specimen)


@pytest.mark.parametrize("words", [["migrate", "--plan"], ["migrate"]])
def test_a_ledger_of_this_version_needs_no_migration(specimen: Path, words: list[str]) -> None:
    """There is nothing to do, and it says so."""
    assert done(*words, "--workspace", specimen) == "nothing to do\n"


@pytest.mark.parametrize("verb", ["doctor", "migrate", "purge"])
def test_a_folder_without_a_workspace_is_named(tmp_path: Path, verb: str) -> None:
    """One line says that there is no workspace, and nothing is made."""
    words = ["--keep", "1"] if verb == "purge" else []
    ended = run(verb, *words, "--workspace", tmp_path)
    assert ended.returncode in (2, 3, 4)
    assert "workspace.toml" in ended.stdout + ended.stderr or "no application" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_snapshot_follows_the_operator(case: Path, perenne: Any, tmp_path: Path) -> None:
    """After a purge and after a restore the file for other programs tells of the ledger as it is then."""
    shown = lambda: json.loads((case / "perenne-snapshot.json").read_bytes())  # noqa: E731
    perenne.done("enqueue", "--workspace", case)
    done("backup", tmp_path / "one.sqlite", "--workspace", case)
    perenne.done("run", "--workspace", case)
    assert (shown()["epoch"], shown()["counts"]) == (1, {"COMPLETED": 6})
    done("purge", "--keep", "2", "--workspace", case)
    assert shown()["counts"] == {"COMPLETED": 2}
    done("restore", tmp_path / "one.sqlite", "--workspace", case)
    assert (shown()["epoch"], shown()["counts"]) == (2, {"QUEUED": 6})
