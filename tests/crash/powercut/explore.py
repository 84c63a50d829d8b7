"""Draws states in which the disk may wake up, lets the standard library's SQLite recover each, and asks the questions.

This is a process of its own that never loads the engine: `explore.py RECORDING ORDERS` takes its orders as JSON and
answers with JSON.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from powercut import disk
from powercut.disk import Disk, Image
from powercut.questions import Wrong
from powercut.recording import Moment, Recording, load, moments
from powercut.recovery import Recovery, Truth

_SHOWN = 5
_STRIDE = 5  # of moments: one round looks at each fifth
_KEPT_EVERY = 25


@dataclass
class Findings:
    """What one exploration saw."""

    drawn: int = 0
    digests: set[bytes] = field(default_factory=set)
    during: Counter[str] = field(default_factory=Counter)  # distinct images, by the call under way
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)

    def are_new(self, image: Image, moment: Moment, label: str) -> bool:
        """Count an image that was drawn; whether none with its content was drawn while as much was acknowledged."""
        self.drawn += 1
        before = len(self.digests)
        self.digests.add(disk.digest(image, moment.acknowledged))
        self.during[label] += len(self.digests) - before
        return len(self.digests) > before

    def note(self, wrong: Wrong, moment: Moment, number: int, label: str) -> None:
        self.wrong[wrong.kind] += 1
        if len(self.examples) < _SHOWN or self.wrong[wrong.kind] == 1:
            where = {"operation": moment.operation, "number": number, "during": label}
            self.examples.append({"kind": wrong.kind, "sentence": str(wrong), **where})


def draw(present: Disk, seed: int, moment: Moment, number: int) -> tuple[Image, bytes | None]:
    """The image of this number, and what is left of shared memory: nothing, zeros or garbage."""
    luck = Random(f"{seed}:{moment.operation}:{number}")
    image = disk.draw(present, luck, number + moment.operation)
    return image, luck.choice((None, None, bytes(32768), luck.randbytes(32768)))


@dataclass
class Keeper:
    """Leaves every so many-th image in a folder of its own, for the engine to go on with."""

    folder: Path
    every: int
    seen: int = 0

    def offer(self, moment: Moment, image: Image) -> None:
        self.seen += moment.acknowledged > 0
        if moment.acknowledged and self.seen % self.every == 0:
            leave(image, self.folder / f"{moment.operation:06}-{self.seen}")


def leave(image: Image, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, content in image.items():
        (folder / name).write_bytes(content)


def explore(
    recording: Recording, seed: int, enough: int, part: int = 0, parts: int = 1, keeper: Keeper | None = None
) -> Findings:
    """Draw until there are `enough` distinct images, round after round over one part of all moments."""
    findings = Findings()
    with Recovery(recording) as recovery:
        truth = Truth(recording, recovery)
        total = len(recording.operations)
        mine = range(total * part // parts, total * (part + 1) // parts)
        number = 0
        while len(findings.digests) < enough:
            for moment, present in moments(recording):
                if moment.operation in mine and (moment.operation - number) % _STRIDE == 0:
                    image, shared_memory = draw(present, seed, moment, number)
                    label = recording.label(moment)
                    if findings.are_new(image, moment, label):
                        wrong = truth.fault(moment, recovery, image, shared_memory)
                        if wrong is not None:
                            findings.note(wrong, moment, number, label)
                        elif keeper is not None:
                            keeper.offer(moment, image)
            number += 1
    return findings


def repeat(recording: Recording, seed: int, operation: int, number: int, keep: Path | None) -> str:
    """One image again; what is wrong with it, or "nothing". It is left in `keep` as the disk held it."""
    with Recovery(recording) as recovery:
        truth = Truth(recording, recovery)
        moment, present = next(pair for pair in moments(recording) if pair[0].operation == operation)
        image, shared_memory = draw(present, seed, moment, number)
        if keep is not None:
            leave(image, keep)
        wrong = truth.fault(moment, recovery, image, shared_memory)
    return "nothing" if wrong is None else f"{wrong.kind}: {wrong}"


def main() -> None:
    recording, orders = load(Path(sys.argv[1])), json.loads(sys.argv[2])
    keep = orders.pop("keep", None)
    found = explore(recording, **orders, keeper=Keeper(Path(keep), _KEPT_EVERY) if keep else None)
    answer = {**vars(found), "digests": [digest.hex() for digest in found.digests], "sqlite": sqlite3.sqlite_version}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
