"""The app of the tests with many workers: jobs that hold until they are let go, and jobs that do nothing."""

import os
import sys
import time
from pathlib import Path

import perenne
from perenne import App, Context, Kind


def hold(context: Context, input: dict[str, str]) -> str:
    """Say that it runs, then wait at boundaries until the gate file is there."""
    gate = Path(input["gate"])
    (gate.parent / f"{context.job_id}.{context.attempt}.{os.getpid()}").touch()
    while not gate.exists():
        context.boundary()
        time.sleep(0.005)  # reason: the work of this handler is to wait for a file
    return str(os.getpid())


app = App(
    "many",
    [Kind("hold", 1, hold, dict[str, str], max_attempts=5), Kind("nothing", 1, lambda context, input: None, dict)],
    queues={"default": 100_000},
)

if __name__ == "__main__":
    with perenne.open(sys.argv[1], app, access="work") as engine:
        worker = engine.worker(slots=int(sys.argv[2]))
        print("ready", flush=True)
        worker.run(stay=True)
