"""Tells the story in a process of its own and writes the recording: `perform.py SEED FILE [one-stage-name]`.

A worker takes three walks through their checkpoints, one fails and one is paused on the way. Everything that it writes
is recorded, with what was acknowledged when.
"""

from __future__ import annotations

import pickle
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from powercut.recorder import Recorder

import perenne
from filecut import files, recording, walks
from perenne import JobState, testing

LIMIT_ROUNDS = 50


def tell(root: Path, seed: int) -> dict[str, Any]:
    """The recording: operations, and the step of each walk that each acknowledgement knows."""
    testing.workspace(root, walks.APP)
    perenne.open(root, walks.APP).close()
    recorder = Recorder(seed, root)
    files.install(recorder, root)
    saved: dict[int, int] = {}
    acknowledged: list[dict[int, int]] = [{}]

    def acknowledge(number: int, at: int) -> None:
        saved[number] = at
        acknowledged.append(dict(saved))
        recorder.note("ack", len(acknowledged) - 1)

    walks.acknowledge = acknowledge
    clock = testing.FakeClock()
    with perenne.open(root, walks.APP, access="work", clock=clock) as engine:
        walks.pause = engine.pause
        ids = [engine.submit(walks.KIND, task).job_id for task in walks.PLAN]
        acknowledge(0, 0)  # from here on every walk is known
        for _ in range(LIMIT_ROUNDS):
            testing.drain(engine, clock=clock)
            states = [engine.job(id).state for id in ids]
            for id, state in zip(ids, states, strict=True):
                if state is JobState.PAUSED:
                    engine.resume(id)
            if set(states) == {JobState.COMPLETED}:
                break
    return {"seed": seed, "operations": recorder.operations, "acknowledged": acknowledged, "ids": ids}


def main() -> None:
    seed, target, *planted = sys.argv[1:]
    if planted:
        recording.use_one_stage_name()
    shared_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="filecut-", dir=shared_memory if shared_memory.is_dir() else None))
    try:
        told = tell(folder / "work", int(seed))
    finally:
        shutil.rmtree(folder)
    Path(target).write_bytes(pickle.dumps(told))


if __name__ == "__main__":
    main()
