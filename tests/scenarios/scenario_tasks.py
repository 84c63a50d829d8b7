"""Tasks of the scenarios that need a decorated function, or a process of its own; a child imports them from here."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from perenne import App, Context

STEPS = [
    "create table tasks_step (number integer primary key)",
    "insert into tasks_step values (2)",
    "insert into tasks_step values (3)",
]

app = App("tasks", queues={"default": 100_000}, migrations=STEPS)
older = App("tasks", queues={"default": 100_000}, migrations=STEPS[:1])


@app.task()
def note(text: str, size: int = 1) -> str:
    return text * size


@app.task(attempts=3)
def answer(sort: str) -> Any:
    """A result of a sort that cannot be kept."""
    return {"large": "x" * 300_000, "object": object(), "nan": float("nan"), "half": "\ud800", "deep": _deep()}[sort]


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@app.task(isolation="process", attempts=1, wall_limit_s=0.5)
def hang(folder: str) -> None:
    (Path(folder) / f"hung.{os.getpid()}").touch()
    while True:
        time.sleep(60)  # reason: a handler that never comes back


@app.task(isolation="process")
def pid(folder: str) -> int:
    return os.getpid()


_kept: list[bytes] = []


@app.task(isolation="process")
def leak(size_bytes: int) -> int:
    """Keep so much memory for ever, really touched."""
    _kept.append(b"x" * size_bytes)
    return os.getpid()


@app.task()
def find(context: Context, key: str) -> None:
    """Nothing but the key; whoever submits it takes care of what it points to."""
