"""Thousands of workspaces with damage among their checkpoints: each opens or refuses, and one job alone is harmed.

python tests/crash/checkpoints/workspaces.py --count 5000      kept in docs/evidence/checkpoint-damage.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
import msgspec
from harness.oracles import require

import perenne
from checkpoints import breaking
from checkpoints.breaking import Place
from perenne import App, Context, GiveUp, Job, JobState, Kind
from perenne.errors import EngineError

EVIDENCE = Path(__file__).parents[3] / "docs" / "evidence" / "checkpoint-damage.json"
SEED = 500
SIZES = (10, 100_000, 120_000, 20)  # of what each job carries: in its row, in files, in its row
_MOST_WRONG = 20
_MEMORY = Path("/dev/shm")
_CODES = tuple(f"checkpoint_{word}" for word in ("missing", "unsupported", "corrupt", "mismatch", "unreadable"))


class State(msgspec.Struct, frozen=True):
    """Whose it is, and what it carries."""

    number: int
    carried: bytes


def _state_of(number: int) -> State:
    return State(number, bytes([number + 1]) * SIZES[number])


def half_and_half(context: Context, number: int) -> object:
    """Saves, and gives up; called again, it says whether it has what it saved."""
    if context.state is None:
        context.checkpoint(_state_of(number))
        return GiveUp("half-way")
    return [number, context.state == _state_of(number)]


APP = App("damage", [Kind("damage.half", 1, half_and_half, int, state_type=State, max_attempts=1)])


def prepare(root: Path) -> list[str]:
    """A workspace whose jobs have saved and given up; their ids, in the order of their numbers."""
    perenne.create(root, APP, name="damage", specimen=True)
    with perenne.open(root, APP, access="work") as engine:
        ids = [engine.submit("damage.half", number).job_id for number in range(len(SIZES))]
        engine.work()
        assert {engine.job(id).state for id in ids} == {JobState.FAILED}
    return ids


def judge(root: Path, ids: list[str], place: Place) -> str:
    """Let every job go on; what became of the damaged one. A broken promise raises AssertionError."""
    try:
        engine = perenne.open(root, APP, access="work")
    except EngineError as error:
        require(place.may_refuse and "\n" not in str(error), "nothing is refused for one checkpoint", error)
        return f"refused: {error.code}"
    with engine:
        for id in ids:
            engine.requeue(id, "again")
        engine.work()
        jobs = [engine.job(id) for id in ids]
        answers = [_answer(job, number, number in place.harmed) for number, job in enumerate(jobs)]
    assert not [path for path in _left(root) if path.partition(".")[0] in _completed(jobs)], "nothing of them is left"
    return ", ".join(sorted({answers[number] for number in place.harmed})) or "nobody harmed"


def _answer(job: Job, number: int, harmed: bool) -> str:
    if job.state is JobState.COMPLETED:
        assert json.loads(job.result or b"") == [number, True], "a job goes on from its own state, whole"
        return "completed"
    assert harmed, f"another job is harmed: {job.state}, {job.diagnostic}"
    said = job.diagnostic or ""
    require(said and "\n" not in said, "it is told in one sentence", said)
    assert job.state is JobState.RECOVERY_REQUIRED, f"{job.state}: {said}"
    assert said.startswith(_CODES), said
    return said.partition(":")[0]


def _completed(jobs: list[Job]) -> set[str]:
    return {job.id for job in jobs if job.state is JobState.COMPLETED}


def _left(root: Path) -> list[str]:
    folder = root / ".perenne" / "checkpoints"
    return os.listdir(folder) if folder.is_dir() else []


def run(seed: int, count: int) -> dict[str, Any]:
    """Damage so many copies of one workspace, each in another way; what became of them."""
    luck, found, wrong = Random(seed), Counter[str](), []
    with tempfile.TemporaryDirectory(prefix="damage-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        ids = prepare(Path(folder, "prepared"))
        for number in range(count):
            root = Path(folder, "case")
            shutil.copytree(Path(folder, "prepared"), root)
            place = breaking.damage(root, ids, luck)
            try:
                found[f"{place.deed}: {judge(root, ids, place)}"] += 1
            except Exception as error:
                found[f"{place.deed}: wrong"] += 1
                wrong.append(f"case {number}, {place.deed}: {type(error).__name__}: {str(error)[:600]}")
            shutil.rmtree(root)
    return {"answers": dict(sorted(found.items())), "wrong": wrong[:_MOST_WRONG], "wrong_count": len(wrong)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=EVIDENCE)
    given = parser.parse_args()
    began = time.monotonic()
    found = run(given.seed, given.count)
    figures = {
        "what": "workspaces with damage among their checkpoints: each opens or refuses, and one job alone is harmed",
        "workspaces": given.count,
        "seed": given.seed,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        **found,
        "seconds": round(time.monotonic() - began),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
