"""Other engines on SQLite beside ours: the same no-op jobs, submitted one by one, then worked off by as many slots.

Each runs in a process of its own, in turn, on the machine's disk and in its most durable mode; what it calls durable is
read back from its own connection. One that is not installed (`pip install -e .[peers]`) is skipped, and said to be.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import Figure

PROGRAMS = Path(__file__).parent / "contenders"
OURS = "perenne"
TARGETS = {"huey": ">= 1", "cairnq": ">= 5", "dbos": ">= 5"}
SLOTS = 8
LIMIT_S = 600
SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of all that are installed; prints their table."""
    jobs = 200 if quick else 2_000  # so many that starting and ending a worker is a small part of it
    present = [OURS, *filter(_is_installed, TARGETS)]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in present}
    for number in range(rounds):
        for name in present if number % 2 else reversed(present):
            results[name].append(_run(name, folder / f"{name}-{number}", jobs))
    print(_table(results, jobs))
    durability = {name: _durability(rows[0]) for name, rows in results.items()}
    settings = {"rounds": rounds, "jobs": jobs, "slots": SLOTS, "durability": durability}
    return settings, _figures(results, jobs)


def _is_installed(name: str) -> bool:
    if importlib.util.find_spec(name) is not None:
        return True
    print(f"peers: {name} is SKIPPED, for it is not installed here: pip install -e .[peers]", flush=True)
    return False


def _run(name: str, folder: Path, jobs: int) -> dict[str, Any]:
    folder.mkdir()
    command = [sys.executable, str(PROGRAMS / f"with_{name}.py"), str(folder), str(jobs), str(SLOTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if result["done"] != jobs:
        raise RuntimeError(f"{name}: {result['done']} of {jobs} jobs were done")
    return result


def _figures(results: dict[str, list[dict[str, Any]]], jobs: int) -> list[Figure]:
    figures = []
    for name, rows in results.items():
        if name != OURS:
            figures += [_ratio(f"ours / {name}: worked off", "work_s", TARGETS[name], results[OURS], rows)]
            figures += [_ratio(f"ours / {name}: submitted", "submit_s", "", results[OURS], rows)]
        for what, key in (("submitted", "submit_s"), ("worked off", "work_s")):
            rates = [jobs / row[key] for row in rows]
            figures.append(Figure(f"{name}: {what}", statistics.median(rates), "jobs a s", "", rates))
    return figures


def _ratio(said: str, key: str, target: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Figure:
    ratios = [their[key] / our[key] for our, their in zip(ours, theirs, strict=True)]
    return Figure(said, statistics.median(ratios), "ratio", target, ratios)


def _durability(row: dict[str, Any]) -> str:
    return f"{row['journal_mode'].upper()}, synchronous {SYNCHRONOUS[row['synchronous']]}"


def _table(results: dict[str, list[dict[str, Any]]], jobs: int) -> str:
    head = f"  {'engine':<30} {'submitted':>10} {'worked off':>11}  {'durability in force':<28} keeps of a done job"
    lines = [f"peers: {jobs:,} no-op jobs, {SLOTS} slots, jobs a second", head]
    for rows in results.values():
        submitted, worked = (statistics.median(jobs / row[key] for row in rows) for key in ("submit_s", "work_s"))
        first = rows[0]
        lines.append(
            f"  {first['version']:<30} {submitted:>10,.0f} {worked:>11,.0f}  {_durability(first):<28} {first['keeps']}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py peers")
