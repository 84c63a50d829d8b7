"""A worker is killed while its children write: once its attempts are looked at, none of them writes any more.

The journal of the handlers is one file to which children and recovery append, so its order is the order of events.
`PERENNE_CRASH_ROUNDS` makes more rounds of it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import children, processes, sample_oracles
from harness.oracles import Violation, require
from harness.plan import outliving, writers
from harness.sample_trial import SampleTrial
from harness.storm import replayable

from perenne.runtime import recovery

pytestmark = pytest.mark.crash

ROUNDS = int(os.environ.get("PERENNE_CRASH_ROUNDS", "20"))
SLOTS = 2


def nothing_is_written_after_the_look(lines: list[dict[str, object]]) -> int:
    """How much the first attempts had written before recovery looked at them; afterwards they write nothing."""
    looked = [place for place, line in enumerate(lines) if line["what"] == "looked"]
    require(len(looked) == SLOTS, "recovery looks at each attempt once", len(looked))
    late = [line for line in lines[looked[0] :] if line["what"] == "written"]
    require(not late, "no child writes once its attempt is looked at", late[:3], len(late))
    return sum(line["what"] == "written" for line in lines)


def one_round(folder: Path, seed: int) -> int:
    trial = SampleTrial(folder, writers(seed, SLOTS))
    trial.submit_all()
    worker = trial.worker(slots=SLOTS)
    while len({line["job"] for line in trial.executed.read() if line["what"] == "written"}) < SLOTS:
        require(not worker.is_over(0.005), "the worker lives until its children write", trial.said())
    worker.is_over(within_s=random.Random(seed).uniform(0, 0.02))
    require(worker.kill(), "the worker is killed", trial.said())
    work = lambda: children.work_and_mark(trial.root, trial.told, trial.executed, slots=SLOTS)  # noqa: E731
    trial.run("recoverer", work)
    written = nothing_is_written_after_the_look(trial.executed.read())
    trial.executed.path.unlink()  # the oracles of the handlers do not know its lines
    trial.finish()
    trial.ask_at_rest()
    return written


def test_no_child_writes_after_its_job_was_settled(
    seed: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """E-O1: in every round the children of the killed worker are ended before anything of theirs is settled."""
    with replayable(seed, "tests/crash/test_children_of_the_dead.py"):
        written = [one_round(tmp_path / str(number), seed + number) for number in range(ROUNDS)]
    record_property("rounds", ROUNDS)
    record_property("written before the kill", sum(written))
    assert min(written) >= SLOTS


def test_a_child_that_hears_nothing_is_ended(tmp_path: Path) -> None:
    """A child that is deaf in native code, and that no signal of its worker's death reaches, is ended by recovery."""
    trial = SampleTrial(tmp_path, outliving(60))
    trial.submit_all()
    trial.worker_with_a_deaf_child().kill()
    trial.finish()
    trial.ask_at_rest()


def test_the_oracles_see_a_child_that_was_left_alone(tmp_path: Path) -> None:
    """Without that step of recovery the deaf child publishes late, beside the next attempt, and that is found."""

    def plant() -> None:
        recovery.Recovery._end_children = lambda *given: {}  # type: ignore[method-assign]

    trial = SampleTrial(tmp_path, outliving(2), plant)
    trial.submit_all()
    trial.worker_with_a_deaf_child().kill()
    trial.finish()
    assert not processes.survivors(), "the deaf child ends by itself"
    with pytest.raises(Violation, match="no new attempt once it is published"):
        sample_oracles.executed_once(trial.rows(), trial.executed)
