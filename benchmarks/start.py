"""What it costs to start: the command's help and the import, above a bare interpreter; and the size of the install."""

from __future__ import annotations

import importlib.metadata
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from figures import Figure
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

STARTS = 5  # of each command in a round
COMMANDS: dict[str, list[str]] = {
    "bare interpreter": [sys.executable, "-c", "pass"],
    "perenne --help": [str(Path(sys.executable).with_name("perenne")), "--help"],
    "import perenne": [sys.executable, "-c", "import perenne"],
}
TARGETS = {"perenne --help": "<= 150", "import perenne": "<= 250"}


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """Milliseconds above a bare interpreter, and the number of packages that the base install brings."""
    starts = 2 if quick else STARTS
    taken = {name: [_round_ms(command, folder, starts) for _ in range(rounds)] for name, command in _built().items()}
    bare_ms = statistics.median(taken["bare interpreter"])
    figures = [Figure("bare interpreter", bare_ms, "ms", "", taken["bare interpreter"])]
    for name, target in TARGETS.items():
        above = [ms - bare_ms for ms in taken.get(name, [])]
        figures.append(Figure(f"{name}, above it", statistics.median(above) if above else None, "ms", target, above))
    figures.append(Figure("base install", len(packages()), "packages", "<= 6"))
    return {"rounds": rounds, "starts_a_round": starts, "packages": sorted(packages())}, figures


def _built() -> dict[str, list[str]]:
    """The commands that end well; each is started once, so that nothing is compiled while the clock runs."""
    return {
        name: command
        for name, command in COMMANDS.items()
        if Path(command[0]).exists() and subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    }


def _round_ms(command: list[str], folder: Path, starts: int) -> float:
    return statistics.median(_start_ms(command, folder) for _ in range(starts))


def _start_ms(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True, timeout=60)
    return (time.perf_counter() - started) * 1000


def packages() -> set[str]:
    """Names of all packages that `pip install perenne` brings beside itself."""
    found: set[str] = set()
    waiting = ["perenne"]
    while waiting:
        for line in importlib.metadata.requires(waiting.pop()) or ():
            needed = Requirement(line)
            name = canonicalize_name(needed.name)
            if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
                found.add(name)
                waiting.append(name)
    return found


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py start")
