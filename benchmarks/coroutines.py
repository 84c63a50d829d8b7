"""A thousand coroutines that sleep in one worker: the memory and the processor time that they take while they do.

Counted from before the first claim: what the process holds more, and what it computes in a second in which all sleep.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

from figures import Figure

import perenne
from perenne import App, AsyncContext, Kind

LIMIT_S = 120.0


class Asleep:
    """Counts who sleeps, and wakes all of them."""

    def __init__(self, count: int) -> None:
        self.count, self.here = count, 0
        self.all_here = threading.Event()
        self.wake = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def sleep(self) -> None:
        self.here, self.loop = self.here + 1, asyncio.get_running_loop()
        if self.here == self.count:
            self.all_here.set()
        await self.wake.wait()


ASLEEP: list[Asleep] = []


async def sleep(context: AsyncContext, input: None) -> None:
    """Until all are here and somebody wakes them."""
    await ASLEEP[-1].sleep()


KIND = Kind("sleeping", 1, sleep, None)
APP = App("benchmark", [KIND], queues={"default": 1_000_000})


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of so many sleepers; how long they took to fall asleep and to end."""
    count, still_s = (1000, 1.0) if quick else (1000, 5.0)
    perenne.create(folder / "workspace", APP, name="benchmark", specimen=True)
    taken: list[tuple[float, ...]] = []
    with perenne.open(folder / "workspace", APP, access="work") as engine:
        for _ in range(rounds):
            taken.append(_round(engine, count, still_s))
    kib, cpu_ms, threads, start_s, end_s = (list(column) for column in zip(*taken, strict=True))
    figures = [
        Figure("threads that the worker has more, for all sleepers", max(threads), "", "<= 16", threads),
        # Later rounds reuse what the first one took, so the largest is the honest figure.
        Figure("memory a sleeping coroutine, with its attempt", max(kib), "KiB", "", kib),
        Figure("processor time in a second of sleep, all of them", statistics.median(cpu_ms), "ms", "", cpu_ms),
        Figure("from the first claim until all sleep", statistics.median(start_s), "s", "", start_s),
        Figure("from the wake until all are recorded", statistics.median(end_s), "s", "", end_s),
    ]
    return {"rounds": rounds, "coroutines": count, "still_s": still_s}, figures


def _round(engine: perenne.Engine, count: int, still_s: float) -> tuple[float, ...]:
    ASLEEP.append(Asleep(count))
    engine.submit_many([engine.request(KIND, None) for _ in range(count)])
    held_kib, threads = _resident_kib(), threading.active_count()
    working = threading.Thread(target=engine.work)
    started = time.perf_counter()
    working.start()
    assert ASLEEP[-1].all_here.wait(LIMIT_S), f"only {ASLEEP[-1].here} of {count} sleep"
    asleep = time.perf_counter()
    more_kib, more_threads = _resident_kib() - held_kib, threading.active_count() - threads
    cpu_s = time.process_time()
    time.sleep(still_s)  # reason: what is measured is how little happens meanwhile
    cpu_ms = (time.process_time() - cpu_s) / still_s * 1e3
    woken = time.perf_counter()
    loop = ASLEEP[-1].loop
    assert loop is not None
    loop.call_soon_threadsafe(ASLEEP[-1].wake.set)
    working.join()
    return more_kib / count, cpu_ms, more_threads, asleep - started, time.perf_counter() - woken


def _resident_kib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py coroutines")
