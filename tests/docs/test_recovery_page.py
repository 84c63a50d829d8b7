"""The page on recovery speaks of every crash point and of no other, and its table of endings is the rules' own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from perenne.core import events
from perenne.core.decide import Change, decide
from perenne.core.job import Job, OnDependency
from perenne.core.publication import Published
from perenne.core.states import JobState
from perenne.crashpoints import POINTS

PAGE = (Path(__file__).parents[2] / "docs" / "recovery.md").read_text(encoding="utf-8")
RUNNING = Job(
    seq=1,
    id="00000000-0000-7000-8000-000000000001",
    kind="a.kind",
    version=1,
    queue="default",
    state=JobState.RUNNING,
    reason="claimed",
    priority=0,
    rank=0,
    submitted_at=0,
    due_at=0,
    key=None,
    unique_key=None,
    input=b"{}",
    publications="{}",
    requested_at=0,
    on_dependency=OnDependency.BLOCK,
    unmet=0,
    max_attempts=3,
    spent=1,
    number=1,
    failures=0,
    interruptions=0,
    attempt="a",
    cancel_asked=False,
    pause_asked=False,
    active_ms=0,
    active_limit_ms=None,
    progress_done=0,
    progress_total=None,
    progress_message=None,
    result=None,
    diagnostic=None,
    updated_at=0,
    finished_at=None,
    revision=1,
)
ABSENT, COHERENT, OTHER = Published.absent(), Published.coherent(), Published.incoherent("another text")


def test_each_crash_point_has_one_row() -> None:
    """Every name of the list stands in exactly one row, and no row has a name that the list lacks."""
    assert Counter(re.findall(r"^\| `(\w+\.\w+)` \|", PAGE, re.MULTILINE)) == Counter(POINTS)


@pytest.mark.parametrize(
    ("row", "published", "asked"),
    [
        (0, COHERENT, {"cancel_asked": True}),
        (1, OTHER, {"cancel_asked": True}),
        (2, ABSENT, {"cancel_asked": True, "pause_asked": True}),
        (3, ABSENT, {"pause_asked": True}),
        (4, ABSENT, {}),
        (5, ABSENT, {"spent": 3}),
    ],
)
def test_each_ending_is_what_the_rules_decide(row: int, published: Published, asked: dict[str, object]) -> None:
    """A row of the table names the state and the reason that `decide` gives in that case."""
    table = PAGE.split("| published? |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(table) == 6
    change = decide(msgspec.structs.replace(RUNNING, **asked), events.Interrupted(published), now=0)
    assert isinstance(change, Change)
    named = re.findall(r"`(\w+)`", table[row])
    assert named[0] == change.to
    assert named[1:] in ([], [change.reason])
