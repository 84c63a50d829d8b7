"""Random kills under load, many of them, counted and kept: workers, who submits and who steers die at random instants.

python tests/crash/record_storm.py --kills 500 --workers 4
python tests/crash/record_storm.py --seed S --only ROUND --out build/storm.json      one round again
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import apsw
from harness import processes
from harness.plan import planned
from harness.sample_trial import SampleTrial
from harness.storm import PER_KILL, Storm

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "random-kills.json"
SEED = 500
A_ROUND = 25  # kills in one workspace


def rage(folder: Path, seed: int, kills: int, workers: int, slots: int) -> dict[str, int]:
    """One round in a new workspace: who died how often. A broken promise raises Violation."""
    trial = SampleTrial(folder, planned(seed, kills * PER_KILL))
    return Storm(trial, seed, workers=workers, slots=slots).rage(kills).kills


def run(seed: int, rounds: range, workers: int, slots: int) -> dict[str, Any]:
    """So many rounds; a broken promise is written down beside the command that repeats its round."""
    died: Counter[str] = Counter()
    wrong: list[str] = []
    began = time.monotonic()
    for number in rounds:
        with tempfile.TemporaryDirectory(prefix="storm-") as place:
            try:
                died.update(rage(Path(place, "round"), seed + number, A_ROUND, workers, slots))
            except AssertionError as broken:
                processes.kill_all()
                processes.kill_descendants()
                command = f"python tests/crash/record_storm.py --seed {seed} --only {number}"
                wrong.append(f"{str(broken)[:1500]}\n    {command} --workers {workers} --slots {slots}")
                print(wrong[-1], file=sys.stderr, flush=True)
        print(f"round {number}: {died.total()} killed", file=sys.stderr, flush=True)
    return {
        "what": "processes killed by SIGKILL at random instants under load; every question asked after each",
        "seed": seed,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "workers": workers,
        "slots": slots,
        "killed": died.total(),
        "by role": dict(died),
        "jobs": len(rounds) * A_ROUND * PER_KILL,
        "wrong": wrong,
        "seconds": round(time.monotonic() - began),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", type=int, metavar="ROUND")
    parser.add_argument("--out", type=Path, default=EVIDENCE)
    given = parser.parse_args()
    processes.become_reaper()
    rounds = range(-(-given.kills // A_ROUND)) if given.only is None else range(given.only, given.only + 1)
    found = run(given.seed, rounds, given.workers, given.slots)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
