"""The app and the worker process of the tests that steer from another process; what happens is said line by line."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import perenne
from perenne import App, Context, Kind, tools
from perenne.errors import ToolFailed
from perenne.runtime import drain, worker

LIMITS = tools.Limits(
    wall_s=60,
    cpu_s=60,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=1024,
    stderr_bytes=1024,
)


def say(*words: object) -> None:
    print(*words, flush=True)


def go_on(context: Context, input: Any) -> str:
    """Reach one boundary after the other until the file `input` is there."""
    say("started", context.job_id)
    while not Path(input).exists():
        context.boundary()
        threading.Event().wait(0.002)
    return "done"


def hold_a_tool(context: Context, input: Any) -> str:
    """Let an outside program run for a minute; when it is stopped that is a failure of this handler."""
    say("started", context.job_id)
    result = tools.run(["/bin/sleep", "60"], cwd=Path("/"), limits=LIMITS, stop=context.stop)
    raise ToolFailed(result.sentence)


def stick(context: Context, input: Any) -> None:
    """Never reach a boundary."""
    say("started", context.job_id)
    threading.Event().wait()


KINDS = [Kind(name, 1, handler, str) for name, handler in (("go_on", go_on), ("tool", hold_a_tool), ("stick", stick))]
OVERSTAY = Kind("overstay", 1, stick, str, wall_limit_s=0.1)
app = App("steered", [*KINDS, OVERSTAY, Kind("quick", 1, lambda context, input: input, str)])


def main(root: str, slots: str, grace_s: str) -> None:
    drain.GRACE_S = worker.GRACE_S = float(grace_s)
    drain.LAST_GRACE_S = 0.3
    with perenne.open(root, app, access="work") as engine:
        engine.on_end(lambda job: say("ended", job.id, job.state))
        say("ready", os.getpid())
        report = engine.work(slots=int(slots), stay=True)
        say("report", report.ended, report.drained)


if __name__ == "__main__":
    main(*sys.argv[1:])
