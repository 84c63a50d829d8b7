"""`python with_dbos.py FOLDER JOBS SLOTS`: DBOS on SQLite, its workflows enqueued one by one, then worked off."""

from __future__ import annotations

import importlib.metadata
import sys
import time
from pathlib import Path
from typing import Any

import run_alone
from dbos import DBOS

_DONE = "select count(*) from workflow_status where status = 'SUCCESS'"


def main(folder: Path, jobs: int, slots: int) -> dict[str, Any]:
    url = f"sqlite:///{folder / 'dbos.sqlite'}"
    engine = DBOS(
        config={"name": "benchmark", "system_database_url": url, "log_level": "CRITICAL", "run_admin_server": False}
    )

    @DBOS.workflow()
    def nothing(number: int) -> None:
        return None

    DBOS.launch()
    started = time.perf_counter()
    for number in range(jobs):
        DBOS.enqueue_workflow("bench", nothing, number)
    submitted = time.perf_counter()
    DBOS.register_queue("bench", worker_concurrency=slots, polling_interval_sec=0.01)  # until now nobody works it off
    with engine._sys_db.engine.connect() as connection:
        ask = connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql
        while (done := ask(_DONE).scalar()) < jobs and time.perf_counter() - submitted < 300:
            time.sleep(0.02)  # it tells nobody that all is done
        worked = time.perf_counter()
        modes = {name: ask(f"pragma {name}").scalar() for name in ("synchronous", "journal_mode")}
    DBOS.destroy()
    version = f"dbos {importlib.metadata.version('dbos')}"
    return run_alone.result(version, done, submitted - started, worked - submitted, modes, "workflow, its result")


if __name__ == "__main__":
    run_alone.run(main, sys.argv)
