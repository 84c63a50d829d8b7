"""`python with_cairnq.py FOLDER JOBS SLOTS`: CairnQ on SQLite, its tasks submitted one by one, then worked off."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
import time
from pathlib import Path
from typing import Any

import run_alone
from cairnq import CairnQ, Worker


async def measure(folder: Path, jobs: int, slots: int) -> dict[str, Any]:
    path = str(folder / "cairnq.db")
    worker = Worker.sqlite(path, concurrency=slots, poll_interval_ms=1)

    @worker.task("nothing")
    async def nothing(context: Any, payload: Any) -> None:
        return None

    async with CairnQ.sqlite(path) as tasks:
        started = time.perf_counter()
        for number in range(jobs):
            last = await tasks.submit("nothing", {"number": number})
        submitted = time.perf_counter()
        async with worker.background():
            while True:
                counts = (await tasks.stats())["default"]
                if counts.get("succeeded", 0) == jobs or time.perf_counter() - submitted > 300:
                    break
                await asyncio.sleep(0.02)  # it tells nobody that all is done
            worked = time.perf_counter()
            modes = {name: await _pragma(worker, name) for name in ("synchronous", "journal_mode")}
    assert last is not None
    version = f"cairnq {importlib.metadata.version('cairnq')}"
    done = counts.get("succeeded", 0)
    return run_alone.result(version, done, submitted - started, worked - submitted, modes, "task")


async def _pragma(worker: Any, name: str) -> Any:
    """As the connection of the worker itself says."""
    cursor = await worker._store._conn.execute(f"pragma {name}")
    return (await cursor.fetchone())[0]


def main(folder: Path, jobs: int, slots: int) -> dict[str, Any]:
    return asyncio.run(measure(folder, jobs, slots))


if __name__ == "__main__":
    run_alone.run(main, sys.argv)
