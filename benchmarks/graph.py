"""What the release of a job costs in a graph of 100 jobs and in one of 10,000: a chain, and a join over all others.

An end is measured with its commit and the claim of the job that it released, as a turn of a worker does them, and
without the commit by the CPU time it takes. Graphs are put in by one `submit_many` each.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import Figure
from rivals import KIND, Case, open_engine

from perenne import Engine
from perenne.core import events
from perenne.core.publication import Published
from perenne.store.ledger import Ending, Lane
from perenne.store.owners import Owners

JOBS, QUICK_JOBS = (100, 10_000), (100, 1_000)
ENDS, QUICK_ENDS = 15, 5


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of both shapes."""
    jobs, ends = (QUICK_JOBS, QUICK_ENDS) if quick else (JOBS, ENDS)
    figures = [figure for shape in SHAPES for figure in _shape(folder, shape, jobs, rounds, ends)]
    return {"rounds": rounds, "ends_a_round": ends, "jobs": jobs}, figures


def chain(engine: Engine, jobs: int) -> None:
    """Each job waits for the one before."""
    batch = [engine.request(KIND, Case("link", 0))]
    for number in range(1, jobs):
        batch.append(engine.request(KIND, Case("link", number), depends_on=[batch[-1].id]))
    engine.submit_many(batch)


def join(engine: Engine, jobs: int) -> None:
    """One job waits for all others."""
    members = [engine.request(KIND, Case("member", number)) for number in range(jobs - 1)]
    last = engine.request(KIND, Case("join", 0), depends_on=[one.id for one in members], on_dependency="continue")
    engine.submit_many([*members, last])


SHAPES = {"chain": chain, "join": join}


def _shape(folder: Path, shape: str, jobs: Sequence[int], rounds: int, ends: int) -> list[Figure]:
    with contextlib.ExitStack() as stack:
        graphs = []
        for count in jobs:
            engine = stack.enter_context(open_engine(folder / f"{shape}-{count}", None, work=True))
            SHAPES[shape](engine, count)
            graphs.append(_Turns(engine))
            graphs[-1].end(ends)
        taken: list[list[tuple[float, float]]] = [[] for _ in jobs]
        for number in range(rounds):
            for place in range(len(jobs)) if number % 2 else reversed(range(len(jobs))):
                taken[place].append(graphs[place].end(ends))
    figures = []
    for place, what in enumerate(("release", "CPU of a release")):
        few, many = ([values[place] for values in rounds_of] for rounds_of in taken)
        ratios = [one / other for one, other in zip(many, few, strict=True)]
        figures += [
            Figure(f"{what} in a {shape} of {jobs[0]:,}", statistics.median(few), "µs", "", few),
            Figure(
                f"{what} in a {shape} of {jobs[1]:,} / of {jobs[0]:,}",
                statistics.median(ratios),
                "ratio",
                "<= 1.5",
                ratios,
            ),
        ]
    return figures


class _Turns:
    """Ends job after job of one graph."""

    def __init__(self, engine: Engine) -> None:
        self._ledger, self._clock = engine._ledger, engine._clock
        assert engine._holding is not None
        self._owner = engine._holding.owner
        Owners(engine._driver).join(self._owner, now=self._clock.now())
        self._running = self._turn([])

    def end(self, count: int) -> tuple[float, float]:
        """Microseconds of an end with the next claim: the median with its commit, and the mean of the CPU it took."""
        taken_us = []
        cpu_s = time.process_time()
        for _ in range(count):
            started = time.perf_counter()
            ended = events.Ended(answer=events.Returned(), published=Published.absent())
            self._running = self._turn([Ending(self._running, ended, 0.5)])
            taken_us.append((time.perf_counter() - started) * 1e6)
        return statistics.median(taken_us), (time.process_time() - cpu_s) / count * 1e6

    def _turn(self, endings: Sequence[Ending]) -> Any:
        turn = self._ledger.turn(
            endings,
            [Lane(KIND.name, KIND.version)],
            [os.urandom(16).hex()],
            owner=self._owner.id,
            now=self._clock.now(),
            actor="worker:bench",
        )
        (claim,) = turn.claims
        return claim.token


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py graph")
