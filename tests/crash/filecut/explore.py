"""Draws states in which a strict disk may be found, and wakes the engine up in each.

A process of its own, `explore.py RECORDING ORDERS`; it takes its orders as JSON and answers with JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from powercut import disk
from powercut.disk import Disk, Image

from filecut.judge import Judge
from filecut.recording import ONE_STAGE_NAME, WRONG, Moment, Recording, load, moments, use_one_stage_name

_SHOWN = 5
_STRIDE = 7  # of moments: one round looks at each seventh


def draw(present: Disk, seed: int, moment: Moment, number: int) -> Image:
    """The image of this number at this moment."""
    return disk.draw(present, Random(f"{seed}:{moment.operation}:{number}"), number + moment.operation)


def explore(recording: Recording, seed: int, enough: int, part: int = 0, parts: int = 1) -> dict[str, Any]:
    """Draw until there are `enough` distinct images, round after round over one part of all moments."""
    digests: set[bytes] = set()
    wrong: Counter[str] = Counter()
    examples: list[dict[str, Any]] = []
    drawn = number = 0
    total = len(recording.operations)
    mine = range(total * part // parts, total * (part + 1) // parts)
    with Judge(recording) as judge:
        while len(digests) < enough:
            for moment, present in moments(recording):
                if moment.operation not in mine or (moment.operation - number) % _STRIDE:
                    continue
                image = draw(present, seed, moment, number)
                drawn += 1
                digest = disk.digest(image, moment.acknowledged)
                if digest in digests:
                    continue
                digests.add(digest)
                fault = judge.fault(image, moment.acknowledged)
                if fault is not None:
                    kind = fault.partition(":")[0]
                    wrong[kind] += 1
                    if len(examples) < _SHOWN or wrong[kind] == 1:
                        examples.append({"sentence": fault, "operation": moment.operation, "number": number})
            number += 1
    return {"drawn": drawn, "digests": [one.hex() for one in digests], "wrong": dict(wrong), "examples": examples}


def repeat(recording: Recording, seed: int, operation: int, number: int, keep: Path) -> str:
    """One image again; what is wrong with it, or "nothing". The workspace is left in `keep` as the disk held it."""
    moment, present = next(pair for pair in moments(recording) if pair[0].operation == operation)
    image = draw(present, seed, moment, number)
    with Judge(recording) as judge:
        shutil.rmtree(keep, ignore_errors=True)
        judge.lay(image, keep)
        return judge.fault(image, moment.acknowledged) or "nothing"


def main() -> None:
    recording, orders = load(Path(sys.argv[1])), json.loads(sys.argv[2])
    planted = orders.pop("planted", None)
    if planted is not None:
        recording = recording._replace(operations=WRONG[planted](recording.operations))
    if planted == ONE_STAGE_NAME:
        use_one_stage_name()
    json.dump(explore(recording, **orders), sys.stdout)


if __name__ == "__main__":
    main()
