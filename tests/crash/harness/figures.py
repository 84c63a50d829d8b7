"""What a run really did: who died, where and how often. Only what was counted is ever quoted."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import apsw

from harness import processes
from perenne import crashpoints

FILE = Path(__file__).parents[3] / "build" / "reports" / "crash-figures.json"

calls: dict[str, Any] = {}  # by operation: what the tour through its calls counted


def keep(seed: int) -> str | None:
    """Write the figures of this run into a file; gives a line for people, None when nobody died."""
    died = processes.killed
    points = {point: died[point] for point in crashpoints.POINTS if died[point]}
    if not died.total():
        return None
    figures = {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "seed": seed,
        "processes killed": died.total(),
        "killed at random": died["at random"],
        "points": len(points),
        "of points": len(crashpoints.POINTS),
        "killed at points": points,
        "calls": calls,
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(figures, indent=2) + "\n")
    at = f"{died.total() - died['at random']} at {len(points)} of {len(crashpoints.POINTS)} points"
    return f"{died.total()} processes killed: {died['at random']} at random, {at}; seed {seed}; kept in {FILE}"
