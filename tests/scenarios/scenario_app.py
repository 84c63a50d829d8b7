"""The application of the scenarios, and the program of its workers: jobs that act by a plan, step by step.

What lives here: the handler and what it publishes. What does not: the stage on which tests place it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import perenne
from perenne import App, Backoff, Context, Kind, Publication, Published, Snooze, crashpoints
from perenne.errors import EngineError
from perenne.runtime import worker
from perenne.store import space

Plan = dict[str, Any]

MOST_WAIT_S = 60.0
SAVED = bytes(100_000)


def act(context: Context, plan: Plan) -> object:
    """Say that this attempt runs, then take the steps planned for it; the last plan is for all attempts that follow."""
    folder, steps = Path(plan["folder"]), plan["attempts"]
    (folder / f"{context.job_id}.{context.attempt}.{os.getpid()}").touch()
    for step in steps[min(context.attempt, len(steps)) - 1].split():
        if step == "snooze":
            return Snooze(1.0)
        STEPS[step](context, folder)
    return os.getpid()


def gates(context: Context, folder: Path) -> tuple[Path, Path]:
    """The files that let an attempt go on: its own, and the one of all attempts."""
    return folder / f"{context.job_id}.go.{context.attempt}", folder / "go"


def wait(context: Context, folder: Path) -> None:
    await_gate(context, folder, context.boundary)


def deaf(context: Context, folder: Path) -> None:
    """Wait as `wait` does, but at no boundary: nobody can ask this handler to end."""
    await_gate(context, folder, lambda: None)


def await_gate(context: Context, folder: Path, meanwhile: Callable[[], None]) -> None:
    ends_at = time.monotonic() + MOST_WAIT_S
    while not any(gate.exists() for gate in gates(context, folder)):
        assert time.monotonic() < ends_at, "no gate was opened"
        meanwhile()
        time.sleep(0.005)  # reason: the work of this handler is to wait for a file


def hog(context: Context, folder: Path) -> None:
    """Hold the interpreter's lock until somebody writes into the pipe `hog`: no other thread of this process runs."""
    descriptor = os.open(folder / "hog", os.O_RDWR)
    ctypes.PyDLL(None).read(descriptor, ctypes.create_string_buffer(1), 1)
    os.close(descriptor)


def may_publish(context: Context, folder: Path) -> None:
    context.may_publish()


def freeze(context: Context, folder: Path) -> None:
    stop_here()


def stop_here() -> None:
    """Stop this process, with this thread exactly here: sent to the process, the signal may find another one first."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def progress(context: Context, folder: Path) -> None:
    context.progress(context.attempt, 100)
    context.keep_progress()


def publish(context: Context, folder: Path) -> None:
    context.publish(write)


def unchecked(context: Context, folder: Path) -> None:
    """What a zombie does that was allowed to publish before it lost its right."""
    write(context.publication)


def fail(context: Context, folder: Path) -> None:
    raise OSError("planned")


def die(context: Context, folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def save(context: Context, folder: Path) -> None:
    """Save more than fits a row."""
    context.checkpoint(SAVED)


STEPS = {
    "wait": wait,
    "deaf": deaf,
    "hog": hog,
    "may": may_publish,
    "freeze": freeze,
    "progress": progress,
    "save": save,
    "publish": publish,
    "unchecked": unchecked,
    "fail": fail,
    "die": die,
}


def page_of(publication: Publication) -> Path:
    return Path(publication.input["folder"]) / "pages" / publication.ids["page"]


def write(publication: Publication) -> None:
    """Publish one page under its identity; twice is once, and every time that it really wrote is counted."""
    page = page_of(publication)
    page.parent.mkdir(exist_ok=True)
    try:
        with page.open("x") as file:
            file.write(publication.job_id)
    except FileExistsError:
        return
    with (page.parent.parent / "written").open("a") as count:
        count.write(f"{publication.job_id}\n")


def look(publication: Publication) -> Published:
    page = page_of(publication)
    if not page.exists():
        return Published.absent()
    text = page.read_text()
    return Published.coherent("page") if text == publication.job_id else Published.incoherent(f"{page} holds {text!r}")


SOON = Backoff(0.001, 0.001)
KINDS = [
    Kind("act", 1, act, Plan, backoff=SOON),
    Kind("saved", 1, act, Plan, backoff=SOON, state_type=bytes),
    Kind("frail", 1, act, Plan, backoff=SOON, interruptions=3),
    Kind("page", 1, act, Plan, backoff=SOON, publications=("page",), lookup=look),
]
QUEUES = {"default": 100_000, "other": 1000, "narrow": 1}

app = App("scenes", KINDS, queues=QUEUES)
alone = App("scenes-alone", KINDS, queues=QUEUES, one_worker=True)


def main(root: str, *options: str) -> None:
    """Work in a workspace until told to stop (`once`: until nothing is due); or submit one job, given as JSON."""
    wishes = dict(option.split("=", 1) for option in options)
    for module, name in ((worker, "LONGEST_SLEEP_S"), (worker, "PATIENCE_S"), (space, "FRESH_S")):
        if name in wishes:
            setattr(module, name, float(wishes[name]))
    if "stop_at" in wishes:
        crashpoints.observe(lambda point: stop_here() if point == wishes["stop_at"] else None)
    served = alone if "alone" in wishes else app
    try:
        if "submit" in wishes:
            with perenne.open(root, served) as engine:
                engine.submit("act", json.loads(wishes["submit"]))
        else:
            work(root, served, slots=int(wishes.get("slots", 1)), stay="once" not in wishes)
    except EngineError as error:
        print(error.code, flush=True)
        raise


def work(root: str, served: App, *, slots: int, stay: bool) -> None:
    with perenne.open(root, served, access="work") as engine:
        serving = engine.worker(slots=slots)
        print("ready", flush=True)
        serving.run(stay=stay)


if __name__ == "__main__":
    main(*sys.argv[1:])
