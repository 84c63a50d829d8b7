"""The app of the tests with many coroutines in a worker process: they wait, and one holds the loop for everybody."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec

import perenne
from perenne import App, AsyncContext, Kind, Publication, Published


class Order(msgspec.Struct, frozen=True):
    """The folder through which a handler and the test talk."""

    folder: str


def tell(order: Order, name: str, word: str) -> None:
    """One line in one write, which a kill does not take apart."""
    descriptor = os.open(Path(order.folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{word}\n".encode())
    os.close(descriptor)


def told(folder: str | Path, name: str) -> list[str]:
    path = Path(folder, name)
    return path.read_text().splitlines() if path.exists() else []


def look(publication: Publication) -> Published:
    there = publication.job_id in told(publication.input.folder, "shelf")
    return Published.coherent("shelved") if there else Published.absent()


def shelve(publication: Publication) -> str:
    tell(publication.input, "shelf", publication.job_id)
    return "shelved"


async def wait(context: AsyncContext, order: Order) -> str:
    """Begin, await boundaries until the gate is open, then publish once."""
    tell(order, "begun", f"{context.job_id} {context.attempt}")
    while not Path(order.folder, "gate").exists():
        await context.boundary()
        await asyncio.sleep(0.05)
    return await context.publish(shelve)


def hold_the_loop(order: Order) -> None:
    tell(order, "held", "at work")
    while not Path(order.folder, "let go").exists():
        time.sleep(0.01)  # reason: it holds the loop, which is what is watched


async def hold(context: AsyncContext, order: Order) -> str:
    """What no coroutine should do."""
    hold_the_loop(order)
    return "let go"


app = App(
    "loop",
    [Kind("wait", 1, wait, Order, lookup=look, max_attempts=3), Kind("hold", 1, hold, Order)],
    queues={"default": 10_000},
)


def main(root: str) -> None:
    with perenne.open(root, app, access="work") as engine:
        worker = engine.worker(slots=1, coroutines=2000)
        print("ready", flush=True)
        worker.run(stay=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
