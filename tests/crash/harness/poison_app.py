"""An application whose handlers are bad company: one kills its process, one never ends, one hides in a tool."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import msgspec

import perenne
from harness.journal import Journal
from harness.sample_app import TOOL_LIMITS
from perenne import App, Context, Kind, tools


class Task(msgspec.Struct, frozen=True):
    """What is to be done in vain; `deaf` handlers pass no boundary."""

    deaf: bool = False


def begun(root: Path) -> Journal:
    """Where the handlers say that they began."""
    return Journal(root.parent / "begun.jsonl")


def _begin(context: Context) -> None:
    begun(context.workspace).write(job=context.job_id, attempt=context.attempt, pid=os.getpid())
    bell = os.open(context.workspace.parent / "began", os.O_WRONLY)
    os.write(bell, b"!")
    os.close(bell)


def kill(context: Context, task: Task) -> None:
    """End the whole process, as a fault of native code does."""
    _begin(context)
    os.kill(os.getpid(), signal.SIGKILL)


def last(context: Context, task: Task) -> None:
    """Go on until told to end; a deaf one is never told."""
    _begin(context)
    while True:
        if not task.deaf:
            context.boundary()
        select.select([], [], [], 0.005)


def hide(context: Context, task: Task) -> None:
    """Wait for a tool that ends in a minute, and ignores what can be ignored."""
    _begin(context)
    script = "trap '' TERM; sleep 60 & wait; sleep 60" if task.deaf else "sleep 60"
    tools.run(["/bin/sh", "-c", script], cwd=context.stage, limits=TOOL_LIMITS, stop=context.stop)
    context.boundary()


def end(context: Context, task: Task) -> str:
    """Well behaved."""
    _begin(context)
    return "done"


def app(*, one_worker: bool) -> App:
    """The application, for one worker at a time or for many."""
    handlers = {"kill": kill, "last": last, "hide": hide, "end": end}
    kinds = [Kind(f"poison.{name}", 1, handler, Task) for name, handler in handlers.items()]
    return App("poison", kinds, one_worker=one_worker)


def work(root: Path, *, one_worker: bool, slots: int = 1, stay: bool = False) -> None:
    """A worker process."""
    with perenne.open(root, app(one_worker=one_worker), access="work") as engine:
        engine.work(slots=slots, stay=stay)
