"""Power cuts at every write of the ledger: record it, wake up thousands of disks, write what was found as evidence.

python tests/crash/powercut/record.py --images 20000
python tests/crash/powercut/record.py --seed S --replay STORY PLANTED OPERATION NUMBER --keep FOLDER
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
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from powercut import explore
from powercut.recording import Recording, load

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EVIDENCE = ROOT / "docs" / "evidence" / "powercut.json"
SEED = 20_000
STORIES = {"live": 0.9, "migrate": 0.1}  # and their share of the images
PLANTED = {"normal": "lost", "off": "corrupt", "statements": "half", "untouched": "lost"}  # and what must be found then
_PERFORM_S, _EXPLORE_S = 60.0, 1500.0


class Broken(Exception):
    """The bench itself failed."""


def record(story: str, seed: int, planted: str, folder: Path) -> Path:
    """Perform a story in a process of its own; where its recording is."""
    target = folder / f"{story}-{planted}.recording"
    command = [sys.executable, str(HERE / "perform.py"), story, str(seed), planted, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PERFORM_S, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(command)}: {done.stderr[-4000:]}")
    return target


def look(recorded: Path, seed: int, images: int, parts: int, keep: Path | None = None) -> dict[str, Any]:
    """Explore a recording in several processes; what they found, together."""
    began = time.monotonic()
    started = [_start(recorded, _orders(seed, images, part, parts, keep)) for part in range(parts)]
    answers = [_end(process) for process in started]
    digests = {digest for answer in answers for digest in answer["digests"]}
    shown = [example for answer in answers for example in answer["examples"]]
    known = load(recorded)
    return {
        "operations": len(known.operations),
        "syncs": sum(operation[0] == "sync" for operation in known.operations),
        "acknowledged": len(known.acknowledged) - 1,
        "drawn": sum(answer["drawn"] for answer in answers),
        "distinct": len(digests),
        "during": _sum(answer["during"] for answer in answers),
        "violations": _sum(answer["wrong"] for answer in answers),
        "examples": [{**example, "replay": replay_command(known, seed, example)} for example in shown],
        "recorded_with_sqlite": known.sqlite,
        "recovered_with_sqlite": answers[0]["sqlite"],
        "seconds": round(time.monotonic() - began, 1),
    }


def _orders(seed: int, images: int, part: int, parts: int, keep: Path | None) -> dict[str, Any]:
    # A few more each, for what two of them find both counts once.
    orders = {"seed": seed, "enough": images // parts + 20, "part": part, "parts": parts}
    return orders if keep is None else {**orders, "keep": str(keep)}


def _start(recorded: Path, orders: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "explore.py"), str(recorded), json.dumps(orders)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _end(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        answer, _ = process.communicate(timeout=_EXPLORE_S)
    finally:
        process.kill()
    if process.returncode:
        raise Broken(f"an exploring process ended with {process.returncode}")
    found: dict[str, Any] = json.loads(answer)
    return found


def _sum(counts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))


def replay_command(recording: Recording, seed: int, example: dict[str, Any]) -> str:
    where = f"{recording.story} {recording.planted} {example['operation']} {example['number']}"
    return f"python tests/crash/powercut/record.py --seed {seed} --replay {where} --keep build/powercut"


def run(seed: int, images: int, parts: int, planted_images: int) -> dict[str, Any]:
    """The sound ledger, then each planted fault."""
    with tempfile.TemporaryDirectory(prefix="powercut-") as place:
        folder = Path(place)
        sound = {
            story: look(record(story, seed, "none", folder), seed, int(images * share) + 1, parts)
            for story, share in STORIES.items()
        }
        wrong = {
            planted: look(record("live", seed, planted, folder), seed, planted_images, parts) for planted in PLANTED
        }
    return {
        "what": "states of a disk that keeps only what was synced, after a power cut at each write of the ledger",
        "seed": seed,
        "machine": {"cores": parts, "system": f"{platform.system()} {platform.machine()}"},
        "python": platform.python_version(),
        "drawn": sum(found["drawn"] for found in sound.values()),
        "distinct": sum(found["distinct"] for found in sound.values()),
        "violations": sum(sum(found["violations"].values()) for found in sound.values()),
        "stories": sound,
        "planted": wrong,
    }


def faults(evidence: dict[str, Any]) -> list[str]:
    """What is wrong with a run: a broken promise, or a planted fault that was not seen."""
    broken = [
        f"{story}: {example['kind']}: {example['sentence']} (during {example['during']})\n    {example['replay']}"
        for story, found in evidence["stories"].items()
        for example in found["examples"]
    ]
    unseen = [
        f"planted {planted}: nothing {PLANTED[planted]} was found, so the bench is broken"
        for planted, found in evidence["planted"].items()
        if not found["violations"].get(PLANTED[planted])
    ]
    return broken + unseen


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000, help="distinct images of the sound ledger")
    parser.add_argument("--planted-images", type=int, default=1_000, help="distinct images of each planted fault")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=EVIDENCE)
    parser.add_argument("--replay", nargs=4, metavar=("STORY", "PLANTED", "OPERATION", "NUMBER"))
    parser.add_argument("--keep", type=Path, help="with --replay: leave the image there")
    given = parser.parse_args()
    if given.replay:
        story, planted, operation, number = given.replay
        with tempfile.TemporaryDirectory(prefix="powercut-") as place:
            recording = load(record(story, given.seed, planted, Path(place)))
        found = explore.repeat(recording, given.seed, int(operation), int(number), given.keep)
        print(f"{story} {planted} {operation} {number}: {found} is wrong")
        return int(found != "nothing")
    evidence = run(given.seed, given.images, os.cpu_count() or 1, given.planted_images)
    wrong = faults(evidence)
    for found in evidence["planted"].values():
        del found["examples"]  # thousands are alike; what counts is that they are found
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(evidence, indent=2) + "\n")
    print(json.dumps(evidence, indent=2), *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
