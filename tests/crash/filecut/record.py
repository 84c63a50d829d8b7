"""The checkpoints of a job after a power cut at each write and each name: a run that is kept, and one image again.

python tests/crash/filecut/record.py --images 20000            kept in docs/evidence/filecut.json
python tests/crash/filecut/record.py --replay RECORDING OPERATION NUMBER --keep FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from filecut import explore
from filecut.recording import ONE_STAGE_NAME, WRONG, load

HERE = Path(__file__).parent
KEPT = HERE.parents[2] / "docs" / "evidence" / "filecut.json"
_PERFORM_S = 120
_EXPLORE_S = 6 * 3600


class Broken(Exception):
    """The bench itself failed."""


def record(seed: int, planted: str | None, folder: Path) -> Path:
    """Tell the story in a process of its own; where its recording is."""
    target = folder / f"{planted or 'right'}.recording"
    how = ["one-stage-name"] if planted == ONE_STAGE_NAME else []
    command = [sys.executable, str(HERE / "perform.py"), str(seed), str(target), *how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PERFORM_S, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(command)}: {done.stderr[-4000:]}")
    return target


def look(recorded: Path, seed: int, images: int, parts: int, planted: str | None = None) -> dict[str, Any]:
    """Explore a recording in several processes; what they found, together."""
    orders = {"seed": seed, "enough": images // parts + 10, "parts": parts, "planted": planted}
    commands = [
        [sys.executable, str(HERE / "explore.py"), str(recorded), json.dumps({**orders, "part": part})]
        for part in range(parts)
    ]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    answers = [_answer(process) for process in started]
    wrong: Counter[str] = Counter()
    for answer in answers:
        wrong.update(answer["wrong"])
    return {
        "operations": len(load(recorded).operations),
        "drawn": sum(answer["drawn"] for answer in answers),
        "distinct": len({digest for answer in answers for digest in answer["digests"]}),
        "violations": dict(sorted(wrong.items())),
        "examples": [example for answer in answers for example in answer["examples"]],
    }


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        text, _ = process.communicate(timeout=_EXPLORE_S)
    finally:
        process.kill()
    if process.returncode:
        raise Broken(f"an exploring process ended with {process.returncode}")
    found: dict[str, Any] = json.loads(text)
    return found


def run(seed: int, images: int, planted_images: int, parts: int) -> dict[str, Any]:
    """The right order, then each wrong one."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="filecut-") as place:
        folder = Path(place)
        right = look(record(seed, None, folder), seed, images, parts)
        wrong = {name: look(record(seed, name, folder), seed, planted_images, parts, name) for name in WRONG}
    return {
        "what": "the engine woken up in states of a disk that keeps only what was synced, names one by one",
        "seed": seed,
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - began),
        "right": right,
        "wrong": wrong,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--planted-images", type=int, default=500)
    parser.add_argument("--parts", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--to", type=Path, default=KEPT)
    parser.add_argument("--replay", nargs=3, metavar=("RECORDING", "OPERATION", "NUMBER"))
    parser.add_argument("--keep", type=Path, default=Path("build/filecut"))
    given = parser.parse_args()
    if given.replay:
        recording, operation, number = given.replay
        found = load(Path(recording))
        print(explore.repeat(found, given.seed or found.seed, int(operation), int(number), given.keep))
        return
    seed = Random().getrandbits(32) if given.seed is None else given.seed
    told = run(seed, given.images, given.planted_images, given.parts)
    given.to.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    print(f"{told['right']['distinct']} states, violations: {told['right']['violations'] or 'none'}")
    unseen = [name for name, seen in told["wrong"].items() if not seen["violations"]]
    if told["right"]["violations"] or unseen:
        sys.exit(f"violations: {told['right']['violations']}; wrong orders that were not found: {unseen}")


if __name__ == "__main__":
    main()
