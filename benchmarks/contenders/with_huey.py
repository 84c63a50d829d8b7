"""`python with_huey.py FOLDER JOBS SLOTS`: Huey on SQLite, its tasks submitted one by one, then worked off by threads.

With `fsync`, as a durable run needs; it deletes a task when it takes it from its queue and keeps no state of it.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import logging
import sys
import threading
import time
from pathlib import Path
from typing import Any

import run_alone
from huey import SqliteHuey


def main(folder: Path, jobs: int, slots: int) -> dict[str, Any]:
    logging.disable(logging.ERROR)
    huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True, results=False)
    ended = itertools.count(1)
    all_ended = threading.Event()

    @huey.task()
    def nothing(number: int) -> None:
        if next(ended) == jobs:
            all_ended.set()

    started = time.perf_counter()
    for number in range(jobs):
        nothing(number)
    submitted = time.perf_counter()
    consumer = huey.create_consumer(workers=slots, worker_type="thread", initial_delay=0.001, periodic=False)
    consumer.start()
    all_ended.wait(300)
    worked = time.perf_counter()
    done = next(ended) - 1
    modes = {
        name: huey.storage.conn.execute(f"pragma {name}").fetchone()[0] for name in ("synchronous", "journal_mode")
    }
    consumer.stop(graceful=True)
    version = f"huey {importlib.metadata.version('huey')}"
    return run_alone.result(version, done, submitted - started, worked - submitted, modes, "nothing")


if __name__ == "__main__":
    run_alone.run(main, sys.argv)
