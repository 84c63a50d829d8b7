"""What the governor costs: a verdict, a claim behind many that wait, a sequence break, and a hundred thousand of them.

A bare commit is one row in a file of the same journal and sync mode on the same disk. Breaks and commits alternate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure

import perenne
from perenne import App, Context, Engine, Estimate, Kind, sqlite
from perenne.core.pressure import Pressure
from perenne.core.resources import Machine, Policy, Reservation, capacity
from perenne.core.verdicts import Situation, judge
from perenne.runtime import memory
from perenne.store.ledger import Lane

MIB = 1 << 20
RULE = "\n[governor]\nload_ratio = 1000\ncpu_percent = 0\nmemory_percent = 0\nio_percent = 0\n"
VERDICTS, CLAIMS = 5_000, 400
OWNER = "00000000-0000-4000-8000-0000000000aa"


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """Microseconds of a verdict, what waiting jobs add to it, and sequence breaks beside bare commits."""
    few, many = 10, 1_000
    verdict_us = [_verdict_us() for _ in range(rounds)]
    claims = [(_claim_us(folder / f"few-{one}", few), _claim_us(folder / f"many-{one}", many)) for one in range(rounds)]
    steps = 300 if quick else 2_000
    ratios = [_break_ratio(folder / f"break-{one}", steps) for one in range(rounds)]
    sequences = 5_000 if quick else 100_000
    grown_bytes, rows = _sequences(folder / "long", sequences)
    grown = [after / before for before, after in claims]
    figures = [
        Figure("verdict from a given look", statistics.median(verdict_us), "us", "<= 50", verdict_us),
        Figure(f"refusing claim, {many:,} waiting", statistics.median(b for _, b in claims), "us"),
        Figure(f"the same, beside {few} waiting", statistics.median(grown), "times", "<= 1.5", grown),
        Figure("sequence break, same grant", statistics.median(ratios), "of a commit", ">= 0.5", ratios),
        Figure(f"memory grown by {sequences:,} sequences", grown_bytes / MIB, "MiB", "<= 2"),
        Figure("rows left by them", rows, "rows", "<= 8"),
    ]
    return {"few": few, "many": many, "breaks": steps, "sequences": sequences}, figures


def _situation() -> Situation:
    seen = Machine(at_s=1.0, cpus=8, total_bytes=8192 * MIB, available_bytes=8192 * MIB, load=1.0, own_share=0.5)
    return Situation(machine=seen, policy=Policy(), capacity=capacity(seen, Policy()), pressure=Pressure())


def _verdict_us() -> float:
    """The median over verdicts beside eight that run."""
    here, live = _situation(), [Reservation(batch=1, memory_bytes=256 * MIB, threads=1) for _ in range(4)]
    needs = Estimate(memory_bytes=64 * MIB, memory_per_item_bytes=16 * MIB, max_batch=32, threads=2)
    return _median_us(lambda: judge(needs, here, live), VERDICTS)


def _median_us(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter_ns()
        work()
        taken.append(time.perf_counter_ns() - began)
    return statistics.median(taken) / 1_000


def _opened(root: Path, *kinds: Kind) -> Engine:
    app = App("bench", kinds, queues={"default": 1_000_000})
    perenne.create(root, app, name="bench")
    manifest = root / "workspace.toml"
    manifest.write_text(manifest.read_text() + RULE)
    return perenne.open(root, app, access="work")


def _claim_us(root: Path, waiting: int) -> float:
    """The median of claims that find so many jobs waiting, all of a class for which there is no room."""
    needs = Estimate(io_slots=1)
    with _opened(root, kind := Kind("wait", 1, lambda context, number: number, int, estimate=needs)) as engine:
        engine.submit_many([engine.request(kind, number) for number in range(waiting + 1)])
        here, owner, attempts = _situation(), engine._held("bench")[0].id, iter(range(10**6))
        engine._owners.join(engine._held("bench")[0], now=1)

        def claim() -> None:
            rest = {"owner": owner, "now": engine._clock.now(), "actor": "bench", "situation": here}
            engine._ledger.turn([], [Lane("wait", 1)], [f"{next(attempts):032x}"], company=True, **rest)

        claim()
        return _median_us(claim, CLAIMS)


def _break_ratio(root: Path, steps: int) -> float:
    """Sequence breaks a second, over bare commits a second, alternating in ten turns."""
    spent = {"break": 0.0, "commit": 0.0}
    bare = sqlite.open(root.with_suffix(".sqlite"), mode="create")
    bare.execute("create table state (id integer primary key, content blob) strict")

    def commits() -> None:
        began = time.perf_counter()
        for number in range(steps // 10):
            bare.execute("begin immediate")
            bare.execute("insert or replace into state values (1, ?)", (str(number).encode() * 8,))
            bare.execute("commit")
        spent["commit"] += time.perf_counter() - began

    def handler(context: Context, number: int) -> None:
        for turn in range(10):
            commits()
            began = time.perf_counter()
            for step in range(steps // 10):
                context.sequence_break(turn * steps + step)
            spent["break"] += time.perf_counter() - began

    kind = Kind("break", 1, handler, int, state_type=int, estimate=Estimate(memory_bytes=MIB))
    with _opened(root, kind) as engine:
        engine.submit(kind, 1)
        assert engine.work().ended == 1
    bare.close()
    return spent["commit"] / spent["break"]


def _sequences(root: Path, count: int) -> tuple[float, float]:
    """Bytes by which the worker grew from a tenth of its sequences on, and the rows that they left."""
    held: list[int] = []

    def handler(context: Context, number: int) -> None:
        for step in range(count):
            context.sequence_break(step)
            if step in (count // 10, count - 1):
                held.append(memory.used_bytes()[1] or 0)

    kind = Kind("long", 1, handler, int, state_type=int, estimate=Estimate(memory_bytes=MIB))
    with _opened(root, kind) as engine:
        job = engine.submit(kind, 1).job_id
        assert engine.work().ended == 1
        account = engine._ledger.accounts.look()
        rows = len(account.held) + len(account.parked) + len(account.usages)
        return held[1] - held[0], rows + len(engine.history(job_id=job)) + len(engine.attempts(job))
