"""What stays the same when there is much: the time of a claim among many waiting jobs, the memory of a worker.

The jobs are put into the ledger by SQL, as many submits would have left them. A claim is measured with its commit, and
without it by the CPU time it takes.
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
from hands import APP, WorkerProcess
from rivals import KIND, a_row_of, open_engine

from perenne import Engine, JobState, sqlite
from perenne.store.ledger import Lane
from perenne.store.owners import Owners

WAITING, QUICK_WAITING = (1_000, 100_000, 1_000_000), (1_000, 10_000, 50_000)
JOBS, QUICK_JOBS = (10_000, 100_000), (1_000, 5_000)
STEP = 50_000
CLAIMS = 100
LIMIT_S = 600.0

_COPIES = """
with recursive place (n) as (select :first union all select n + 1 from place where n < :last)
insert into job ({columns})
select {values} from place, (select * from job where seq = 1)
"""
_BIRTHS = """
insert into history (seq, job, subject, verb, to_state, reason, actor, at)
select born, seq, 'job:' || id, 'submit', state, reason, 'person:bench', submitted_at
from job where seq between :first and :last
"""


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of claims and of memory."""
    waiting, jobs = (QUICK_WAITING, QUICK_JOBS) if quick else (WAITING, JOBS)
    figures = [*_claims(folder, waiting, rounds), *_memory(folder / "memory", jobs)]
    return {"rounds": rounds, "claims_a_round": CLAIMS, "waiting": waiting, "jobs": jobs}, figures


def put(engine: Engine, first: int, last: int) -> None:
    """Waiting jobs at these places, copies of the one at place 1."""
    with contextlib.closing(sqlite.open(engine.workspace.ledger, mode="write", busy_s=30)) as connection:
        columns = [row[0] for row in connection.execute("select name from pragma_table_info('job') order by cid")]
        birth = "(select max(seq) from history)"
        own = {
            "seq": "n",
            "id": "printf('%08x-0000-7000-8000-%012x', n, n)",
            "born": "n - :first + :born",
            "rank": "rank + n",
            "state": "'QUEUED'",
            "reason": "'submitted'",
            "due_at": "0",
            "attempt": "null",
            "number": "0",
            "spent": "0",
            "finished_at": "null",
            "revision": "1",
        }
        copies = _COPIES.format(columns=", ".join(columns), values=", ".join(own.get(name, name) for name in columns))
        for start in range(first, last + 1, STEP):
            bounds = {"first": start, "last": min(start + STEP - 1, last)}
            connection.execute("begin immediate")
            ((born,),) = connection.execute(f"select {birth} + 1").fetchall()
            connection.execute(copies, bounds | {"born": born})
            connection.execute(_BIRTHS, bounds)
            count = bounds["last"] - start + 1
            connection.execute("update queue set unfinished = unfinished + ? where name = 'default'", (count,))
            connection.execute("commit")


def _claims(folder: Path, waiting: Sequence[int], rounds: int) -> list[Figure]:
    with contextlib.ExitStack() as stack:
        claimers = {
            count: _Claimer(stack.enter_context(_filled(folder / f"waiting-{count}", count))) for count in waiting
        }
        taken = {count: ([], []) for count in waiting}
        for claimer in claimers.values():
            claimer.claim(CLAIMS)
        for number in range(rounds):
            for count in waiting if number % 2 else reversed(waiting):
                for values, value in zip(taken[count], claimers[count].claim(CLAIMS), strict=True):
                    values.append(value)
    figures = []
    for place, what in enumerate(("claim", "CPU of a claim")):
        least_us = taken[waiting[0]][place]
        for count in waiting:
            us = taken[count][place]
            figures.append(Figure(f"{what} at {count:,} waiting", statistics.median(us), "µs", "", us))
        for count in waiting[1:]:
            ratios = [many / few for many, few in zip(taken[count][place], least_us, strict=True)]
            figures.append(
                Figure(f"{what} at {count:,} / at {waiting[0]:,}", statistics.median(ratios), "ratio", "<= 1.5", ratios)
            )
    return figures


def _filled(root: Path, count: int) -> Engine:
    engine = open_engine(root, None, work=True)
    a_row_of(engine)
    put(engine, 2, count)
    return engine


class _Claimer:
    """Claims job after job, as a worker's turn does."""

    def __init__(self, engine: Engine) -> None:
        self._ledger, self._clock = engine._ledger, engine._clock
        assert engine._holding is not None
        self._owner = engine._holding.owner
        Owners(engine._driver).join(self._owner, now=self._clock.now())

    def claim(self, count: int) -> tuple[float, float]:
        """Microseconds of a claim: the median of all with their commits, and the mean of the CPU they took."""
        taken_us = []
        cpu_s = time.process_time()
        for _ in range(count):
            started = time.perf_counter()
            claim = self._ledger.claim(
                [Lane(KIND.name, KIND.version)],
                owner=self._owner.id,
                attempt=os.urandom(16).hex(),
                now=self._clock.now(),
            )
            taken_us.append((time.perf_counter() - started) * 1e6)
            assert claim is not None
        return statistics.median(taken_us), (time.process_time() - cpu_s) / count * 1e6


def _memory(root: Path, jobs: Sequence[int]) -> list[Figure]:
    """Resident memory of a worker after few and after many jobs."""
    with open_engine(root, None, APP) as engine:
        a_row_of(engine)
        worker = WorkerProcess(root, slots=8)
        try:
            started = time.monotonic()
            few, many = (_resident_after(engine, worker, count) for count in jobs)
            taken_s = time.monotonic() - started
        finally:
            worker.end()
    return [
        Figure(f"memory after {jobs[1]:,} / after {jobs[0]:,} jobs", many / few, "ratio", "<= 1.2"),
        Figure(f"memory after {jobs[0]:,} jobs", few / 1024, "MiB"),
        Figure(f"memory after {jobs[1]:,} jobs", many / 1024, "MiB"),
        Figure("filled and worked off meanwhile", jobs[1] / taken_s, "jobs a s"),
    ]


def _resident_after(engine: Engine, worker: WorkerProcess, count: int) -> int:
    """KiB resident once so many jobs in all have ended."""
    put(engine, sum(engine.counts().values()) + 1, count)
    engine._ring()
    deadline = time.monotonic() + LIMIT_S
    while engine.counts().get(JobState.COMPLETED, 0) < count:
        assert time.monotonic() < deadline, f"{engine.counts()} after {LIMIT_S:g} s"
        time.sleep(0.2)  # seldom, for each look is work of the measured process
    return worker.status("VmRSS")


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py scale")
