"""Wakes an image up as the next worker would, and asks where each walk goes on; the engine is judged by its answers.

What must come out is known from the recording alone: what was saved when the power went, or the save under way.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
from powercut.disk import Image

import perenne
from filecut import walks
from filecut.recording import Recording
from perenne import Engine, JobState, testing
from perenne.errors import EngineError


class Judge:
    """A folder in which images are woken up, one after the other."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        shared_memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="filecut-", dir=shared_memory if shared_memory.is_dir() else None))

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder)

    def lay(self, image: Image, root: Path) -> None:
        """The workspace as the disk holds it."""
        for name in self._recording.folders:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, content in image.items():
            (root / name).write_bytes(content)

    def fault(self, image: Image, acknowledged: int) -> str | None:
        """What is wrong when a worker wakes up so, twice; None when nothing is."""
        root = self.folder / "work"
        shutil.rmtree(root, ignore_errors=True)
        self.lay(image, root)
        saved = self._recording.acknowledged[acknowledged]
        try:
            first, second = (self._wake(root) for _ in range(2))
        except EngineError as error:
            return f"refused: {error}"
        for task, found in zip(walks.PLAN, first, strict=True):
            if (wrong := _wrong(task.number, saved.get(task.number, 0), found)) is not None:
                return wrong
        if first != second:
            return f"not the same twice: {first}, then {second}"
        left = sorted(path.name for path in (root / ".perenne" / "checkpoints").iterdir())
        return f"left over: {left}" if left else None

    def _wake(self, root: Path) -> list[tuple[str, bytes | None]]:
        clock = testing.FakeClock()
        with perenne.open(root, walks.APP, access="work", clock=clock) as engine:
            testing.drain(engine, clock=clock)
            self._resume(engine)
            testing.drain(engine, clock=clock)
            jobs = [engine.job(id) for id in self._recording.ids]
            return [(str(job.state), job.result or (job.diagnostic or "").encode()) for job in jobs]

    def _resume(self, engine: Engine) -> None:
        for id in self._recording.ids:
            if engine.job(id).state is JobState.PAUSED:
                engine.resume(id)


def _wrong(number: int, saved: int, found: tuple[str, bytes | None]) -> str | None:
    state, said = found
    if state != JobState.COMPLETED:
        return f"stopped: walk {number} had saved step {saved} and is {state}: {said!r}"
    told = msgspec.json.decode(said or b"")
    if not told["right"]:
        return f"mixed: walk {number} goes on from a state that was never saved"
    if not saved <= told["at"] <= walks.STEPS or (told["at"] > saved + 1 and told["at"] != walks.STEPS):
        return f"lost: walk {number} had saved step {saved} and goes on from {told['at']}"
    return None
