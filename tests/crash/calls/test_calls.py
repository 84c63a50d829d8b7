"""Some of the calls of every operation, drawn by the seed: a kill at it, or a fault; all of them in `record.py`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import figures
from harness.storm import replayable

from calls import cases, deeds, record
from calls.operation import Operation, Performance
from calls.operations import OPERATIONS
from calls.sample_operations import Calm
from calls.tour import cases_of, tour
from calls.watch import BEFORE, Call

pytestmark = pytest.mark.crash

MOST = 24  # cases of each operation


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_call(name: str, seed: int, record_property: Callable[[str, object], None]) -> None:
    """Whoever dies at a call leaves what goes on; a call that fails is told in a sentence, and nothing stays of it."""
    with replayable(seed, f"'tests/crash/calls/test_calls.py::test_each_call[{name}]'"), record.place() as folder:
        tally = tour(OPERATIONS[name], Path(folder), seed, most=MOST)
        assert not tally.wrong, "\n".join(tally.wrong)
    figures.calls[name] = tally.figures()
    record_property("calls", tally.figures())
    assert tally.kills.total() + tally.faults.total() > MOST // 2, "most of the calls come again"


def test_every_verb_has_a_place() -> None:
    """A kill falls before each call, and no fault is one that its call never meets."""
    calls = [Call(f"{verb} some file", 1) for verb in deeds.FAULTS]
    drawn = cases_of(calls, "1")
    assert {case.call for case in drawn if case.deed == BEFORE} == set(calls)
    assert all(case.deed in (*cases.KILLS, *deeds.faults_of(case.call)) for case in drawn)


def careless(trial: Calm, performance: Performance) -> None:
    """Gives up when the disk is full, says so to nobody, and keeps its file open."""
    with performance.counting(), contextlib.suppress(OSError):
        descriptor = os.open(trial.root / "careless", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"content")
        os.close(descriptor)


def foreign(trial: Calm, performance: Performance) -> None:
    """Lets an error of the system through."""
    with performance.counting():
        performance.tried("make", (trial.root / "folder").mkdir)


@pytest.mark.parametrize(
    ("perform", "call", "fault", "promise"),
    [
        (careless, "write workspace/careless", "ENOSPC", "nothing stays open"),
        (foreign, "mkdir workspace/folder", "EIO", "an error is one of ours"),
    ],
)
def test_a_careless_operation_is_found(
    perform: Callable[[Calm, Performance], None], call: str, fault: str, promise: str, tmp_path: Path
) -> None:
    """The questions bite: an operation that tells nothing or leaves something is found, by what it breaks."""
    operation = Operation("careless", OPERATIONS["submit"].make, perform)
    prepared = operation.make(tmp_path / "prepared")
    with pytest.raises(cases.Violation, match=promise):
        cases.ask(operation, prepared, tmp_path / "case", Call(call, 1), fault)
