"""Every call of every operation: a kill before it, a kill after it if it leaves something, one fault at it.

python tests/crash/calls/record.py                        all, kept in docs/evidence/calls.json
python tests/crash/calls/record.py --operation submit --out build/calls.json
python tests/crash/calls/record.py --replay OPERATION CALL NUMBER DEED
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
from harness import processes

from calls import cases
from calls.operations import OPERATIONS
from calls.tour import Tally, together, tour
from calls.watch import Call

ROOT = Path(__file__).parents[3]
EVIDENCE = ROOT / "docs" / "evidence" / "calls.json"
SEED = 500
_MEMORY = Path("/dev/shm")


def place() -> tempfile.TemporaryDirectory[str]:
    """A folder for the trials, in memory where there is some: a process that dies loses nothing that it wrote."""
    return tempfile.TemporaryDirectory(prefix="calls-", dir=_MEMORY if _MEMORY.is_dir() else None)


def share(name: str, seed: int, most: int | None, part: int, parts: int) -> Tally:
    """One share of an operation's cases, in this process."""
    processes.become_reaper()
    with place() as folder:
        return tour(OPERATIONS[name], Path(folder), seed, most=most, part=(part, parts))


def look(name: str, seed: int, most: int | None, parts: int) -> Tally:
    """All cases of an operation, shared by some processes."""
    orders = [[str(seed), str(most or 0), str(part), str(parts)] for part in range(parts)]
    command = [sys.executable, str(Path(__file__)), "--share", name]
    started = [subprocess.Popen([*command, *order], stdout=subprocess.PIPE, text=True) for order in orders]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"a share of {name} ended badly")
    return together([_tally(json.loads(answer.splitlines()[-1])) for answer in said])


def _tally(found: dict[str, Any]) -> Tally:
    kills, faults, answers = (Counter(found[key]) for key in ("killed", "faults", "answers"))
    return Tally(found["calls"], found["cases"], kills, faults, answers, found["not_met"], found["wrong"])


def record(names: list[str], seed: int, most: int | None, parts: int) -> dict[str, Any]:
    """The figures of these operations, by name."""
    found = {}
    for name in names:
        found[name] = look(name, seed, most, parts).figures()
        print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    return found


def summed(found: dict[str, Any], seed: int, most: int | None) -> dict[str, Any]:
    """All figures, with their sums."""
    tallies = [_tally(figures) for figures in found.values()]
    return {
        "what": "each file and SQL call of each operation: a kill before it and after it, one fault at it",
        "seed": seed,
        "most_of_each_operation": most,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "calls": sum(tally.calls for tally in tallies),
        "cases": sum(tally.cases for tally in tallies),
        "asked": sum(tally.kills.total() + tally.faults.total() for tally in tallies),
        "killed": sum(tally.kills.total() for tally in tallies),
        "faults": dict(sum((tally.faults for tally in tallies), Counter())),
        "answers": dict(sum((tally.answers for tally in tallies), Counter())),
        "not_met": sum(tally.not_met for tally in tallies),
        "wrong": sum(len(tally.wrong) for tally in tallies),
        "operations": found,
    }


def replay(name: str, call: str, number: str, deed: str) -> int:
    """One case again; says what is wrong with it."""
    processes.become_reaper()
    with place() as folder:
        prepared = OPERATIONS[name].make(Path(folder, "prepared"))
        print(cases.ask(OPERATIONS[name], prepared, Path(folder, "case"), Call(call, int(number)), deed))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--operation", action="append", choices=sorted(OPERATIONS))
    parser.add_argument("--most", type=int, help="so many cases of each operation at most")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=EVIDENCE)
    parser.add_argument("--replay", nargs=4, metavar=("OPERATION", "CALL", "NUMBER", "DEED"))
    parser.add_argument("--share", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay:
        return replay(*given.replay)
    if given.share:
        name, seed, most, part, parts = given.share
        print(json.dumps(share(name, int(seed), int(most) or None, int(part), int(parts)).figures()))
        return 0
    found = record(given.operation or list(OPERATIONS), given.seed, given.most, os.cpu_count() or 1)
    if given.operation and given.out.exists():
        found = json.loads(given.out.read_text())["operations"] | found  # the others as they were recorded
    figures = summed(found, given.seed, given.most)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps({key: value for key, value in figures.items() if key != "operations"}))
    return int(figures["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
