"""A worker of a small application whose one kind goes on for long: in a tool, or in a loop with boundaries.

Run as a program with the folder of a workspace; the tests import `app` from here to make and steer that workspace.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

import perenne
from perenne import tools

LIMITS = tools.Limits(
    wall_s=60,
    cpu_s=60,
    address_space_bytes=1 << 28,
    file_size_bytes=1 << 20,
    descriptors=32,
    stdout_bytes=1 << 10,
    stderr_bytes=1 << 10,
)


class Work(msgspec.Struct, frozen=True):
    """What to do, and the pipe into which the process that does it writes its number."""

    how: str
    pipe: str


def go_on(context: perenne.Context, given: Work) -> None:
    """Work until somebody asks to end, for at most a minute."""
    if given.how == "tool":
        ended = tools.run(
            ("/bin/sh", "-c", f"echo $$ > {given.pipe}; exec sleep 30"),
            cwd=context.workspace,
            limits=LIMITS,
            stop=context.stop,
        )
        context.boundary()
        raise RuntimeError(f"the tool ended by itself: {ended.sentence}")
    Path(given.pipe).write_text(f"{os.getpid()}\n")
    for _ in range(60_000):
        context.boundary()
        time.sleep(0.001)  # reason: this stands for work, nothing waits for it


app = perenne.App("sleeper", (perenne.Kind("test.go_on", 1, go_on, Work),))

if __name__ == "__main__":
    with perenne.open(sys.argv[1], app, access="work") as engine:
        engine.work()
