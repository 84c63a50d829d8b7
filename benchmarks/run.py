"""`python benchmarks/run.py [--quick] [name …]`: measure, print a table, keep the JSON in `results/`.

Every figure is a median of alternating rounds within one run; ratios are taken round by round, so that a machine
that changes its pace changes both sides. A quick run keeps nothing. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import checkpoints
import children
import coroutines
import governor
import graph
import machine
import mail
import peers
import reaction
import scale
import start
import submit
import takeover
import tools
import wake
import work
from figures import keep, show

BENCHMARKS = {
    one.__name__: one.measure
    for one in (
        submit,
        work,
        wake,
        reaction,
        takeover,
        tools,
        scale,
        start,
        peers,
        children,
        coroutines,
        graph,
        governor,
        mail,
        checkpoints,
    )
}
ROUNDS, QUICK_ROUNDS = 5, 2
PLACE = Path(__file__).parents[1] / "build"


def main() -> int:
    """Run what was named."""
    parser = argparse.ArgumentParser(description="Benchmarks of Perenne, as ratios within one run.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}; all without one")
    parser.add_argument("--quick", action="store_true", help="few and short rounds; nothing is kept")
    asked = parser.parse_args()
    unknown = set(asked.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"name: {', '.join(sorted(unknown))} is unknown; known are {', '.join(BENCHMARKS)}")
    missed = [name for name in asked.names or BENCHMARKS if not run(name, quick=asked.quick)]
    return 1 if missed else 0


def run(name: str, *, quick: bool) -> bool:
    """Run one benchmark; whether it missed no target."""
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PLACE, prefix="bench-") as folder:
        facts = machine.facts(Path(folder))
        settings, figures = BENCHMARKS[name](Path(folder), rounds=QUICK_ROUNDS if quick else ROUNDS, quick=quick)
    load = ", ".join(map(str, facts["load_average"]))
    print(show(f"{name}: {facts['cores']} cores, load average {load}, {facts['file_system']}", figures), flush=True)
    if not quick:
        print(f"  kept in {keep(name, facts, settings, figures).relative_to(PLACE.parent)}")
    return all(figure.met is not False for figure in figures)


if __name__ == "__main__":
    sys.exit(main())
