"""From the keyboard: an investigation of the reference program is adopted, and its other files are left alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

from reference_workspace import Reference, named, seasoned

REFUSED, WRONG = 3, 2
# What the reference program keeps there besides (L:1.6).
OTHERS = (
    ".labfy/import.lock",
    ".labfy/uploads/7/intent.json",
    ".labfy/uploads/7/payload",
    ".labfy/imports/00ff",
    "core-snapshot.json",
    "correlation-snapshot.json",
    "planner-snapshot.json",
    "exports/reports/1/report.json",
)


def test_a_whole_reference_workspace_opens(perenne: Any, tmp_path: Path) -> None:
    """Refused by name before adoption; then it opens, is worked off, and what we do not know stays as it was (EV-4)."""
    made = seasoned(tmp_path / "case", 2)
    for name in OTHERS:
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        (made.root / name).write_text(name)
    before = perenne("status", "--workspace", made.root)
    assert before.code == REFUSED
    assert "perenne evidence adopt" in before.err
    assert "14 jobs and 1 plan adopted" in perenne.done("adopt", "--workspace", made.root)
    assert "were adopted before" in perenne.done("adopt", "--workspace", made.root)
    perenne("run", "--workspace", made.root)
    states = {job["job_id"]: job["state"] for job in perenne.jobs(made.root)}
    assert states[named("interrupted")] == states[named("published")] == "COMPLETED"
    assert [(made.root / name).read_text() for name in OTHERS] == list(OTHERS)


@pytest.mark.parametrize("given_up", ["one", "other"])
def test_one_of_two_jobs_is_given_up(perenne: Any, tmp_path: Path, given_up: str) -> None:
    """The sentence names both jobs, and either can be given up with the command it tells."""
    made = Reference(tmp_path / "case", 1)
    one, other = made.job("one", "QUEUED"), made.job("other", "QUEUED", of="one")
    made.write()
    refused = perenne("adopt", "--workspace", made.root)
    assert refused.code == WRONG
    assert one in refused.err
    assert f"perenne evidence adopt --cancel {other}" in refused.err
    perenne.done("adopt", "--workspace", made.root, "--cancel", named(given_up))
    states = {job["job_id"]: job["state"] for job in perenne.jobs(made.root)}
    assert sorted(states.values()) == ["CANCELLED", "QUEUED"]
    assert states[named(given_up)] == "CANCELLED"
