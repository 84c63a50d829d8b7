"""`python with_perenne.py FOLDER JOBS SLOTS`: no-op jobs submitted one by one, then worked off; prints JSON."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import apsw
import run_alone

import perenne
from perenne import App, Kind

NOTHING = Kind("nothing", 1, lambda context, input: None, int)
APP = App("bench", [NOTHING], queues={"default": 1_000_000})


def main(folder: Path, jobs: int, slots: int) -> dict[str, Any]:
    perenne.create(folder / "workspace", APP, name="benchmark", specimen=True)
    with perenne.open(folder / "workspace", APP, access="work") as engine:
        started = time.perf_counter()
        for number in range(jobs):
            engine.submit(NOTHING, number)
        submitted = time.perf_counter()
        done = engine.work(slots=slots).ended
        worked = time.perf_counter()
        pragma = engine._driver._connection.pragma  # type: ignore[attr-defined]
        modes = {"synchronous": pragma("synchronous"), "journal_mode": pragma("journal_mode")}
    version = f"{perenne.__name__} beside SQLite {apsw.sqlite_lib_version()}"
    return run_alone.result(version, done, submitted - started, worked - submitted, modes, "job, attempts, history")


if __name__ == "__main__":
    run_alone.run(main, sys.argv)
