"""The page that maps the reference's tasks to our jobs: complete on their side, and real on ours."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import perenne
from perenne.files import foreign
from perenne.surfaces.cli.main import cli

PAGE = (Path(__file__).parents[2] / "docs" / "task-lifecycle.md").read_text(encoding="utf-8")
STATES = ["PENDING (0)", "RUNNING (1)", "PAUSED (2)", "CANCELLED (3)", "FAILED (4)", "COMPLETED (5)", "–"]
OPERATIONS = {
    "create", "typed create", "start", "pause", "resume", "request_cancel", "checkpoint, in memory", "sequence_break",
    "snapshot", "durable_snapshot", "restore", "typed restore", "checkpoint save", "checkpoint load", "stage",
    "promote",
}  # fmt: skip


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a title, without its head."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def ours(title: str) -> list[str]:
    """The names in code marks in the second column."""
    return [name for row in rows(title) for name in re.findall(r"`([^`]+)`", row[1])]


def exists(name: str) -> bool:
    """Whether it is a state, a command, or a name of the door or of a module of the package."""
    if name in perenne.JobState.__members__:
        return True
    if name.startswith("perenne "):
        return name.removeprefix("perenne ") in cli.commands
    found, rest = perenne, name.split(".")
    while rest:
        part = rest.pop(0)
        if part in getattr(found, "__annotations__", {}) and not rest:
            return True
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ImportError:
                return False
    return True


@pytest.mark.parametrize(
    "name", [name for title in ("States", "Operations", "The summary at opening") for name in ours(title)]
)
def test_each_name_of_ours_exists(name: str) -> None:
    """What a reader of the page looks for is there."""
    assert exists(name)


@pytest.mark.parametrize("name", ["Engine.restart", "files.record.load", "PENDING", "perenne promote", "runtime.no.x"])
def test_a_name_that_does_not_exist_is_found(name: str) -> None:
    """The question bites."""
    assert not exists(name)


def test_every_state_and_operation_is_mapped() -> None:
    """All six states, each with ours; each of ours once; and each operation."""
    assert [row[0] for row in rows("States")] == STATES
    assert sorted(ours("States")) == sorted(perenne.JobState.__members__)
    assert {row[0] for row in rows("Operations")} >= OPERATIONS


@pytest.mark.parametrize("rule", ["PB-2 step 5", "T-21", "TL-3", "T-1", "TL-6", "T-6", "T-9", "CK-1", "PB-5", "T-10"])
def test_each_difference_has_its_line(rule: str) -> None:
    """Where the engine's own rule wins, one line says so."""
    named = [re.split(r"[(),]\s*", row[0]) for row in rows("What is different")]
    assert [rule in words for words in named].count(True) == 1


def test_the_record_has_no_gap() -> None:
    """The fields of the documented record lie side by side and fill its 516 bytes, from the magic on."""
    at = 0
    for offset, size, _ in rows("Its files"):
        assert int(offset) == at
        at += int(size)
    assert at == 516
    assert len(foreign.RECORD_MAGIC) == int(rows("Its files")[0][1])
