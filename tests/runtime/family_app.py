"""An app whose handlers submit children: in a thread, in a process of their own, and as coroutines."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from perenne import App, Context, GiveUp, Kind


class Orders(msgspec.Struct, frozen=True):
    """What the parent submits: each order is kind, input, name and wishes; a join over all of them; tasks."""

    orders: list[dict[str, Any]] = []
    join: str | None = None
    enqueues: int = 0
    fails: bool = False
    not_before: datetime | None = None


def filled(orders: Orders) -> list[dict[str, Any]]:
    more = {} if orders.not_before is None else {"not_before": orders.not_before}
    return [{"kind": "leaf", "input": "leaf", **order, **more} for order in orders.orders]


def parent(context: Context, orders: Orders) -> list[bool]:
    reused = []
    for _ in range(orders.enqueues):
        leaf_task.enqueue(1)
    if orders.join is not None:
        batch = [context.request(**order) for order in filled(orders)]
        join = context.request("leaf", orders.join, depends_on=[one.id for one in batch])
        reused = [receipt.reused for receipt in context.submit_many([join, *batch])]
    else:
        reused = [context.submit(**order).reused for order in filled(orders)]
    if orders.fails and context.attempt == 1:
        raise OSError("once")
    return reused


async def parent_awaits(context: Any, orders: Orders) -> list[bool]:
    for _ in range(orders.enqueues):
        await leaf_task.aenqueue(1)
    if orders.join is not None:
        batch = [await context.request(**order) for order in filled(orders)]
        join = await context.request("leaf", orders.join, depends_on=[one.id for one in batch])
        return [receipt.reused for receipt in await context.submit_many([join, *batch])]
    reused = [(await context.submit(**order)).reused for order in filled(orders)]
    if orders.fails and context.attempt == 1:
        raise OSError("once")
    return reused


def leaf(context: Context, word: str) -> str:
    return word


def leaf_or_not(context: Context, word: str) -> Any:
    return GiveUp("it is bad") if word == "bad" else word


def seen(results: list[Any], needs: Any) -> dict[str, Any]:
    """Results, then what came of each dependency."""
    told = [[str(need.state), need.waived, need.kind, need.result, need.diagnostic] for need in needs.values()]
    return {"results": results, "needs": told, "ids": list(needs)}


def join(context: Context, input: object) -> dict[str, Any]:
    return seen(context.results(), context.needs())


async def join_awaits(context: Any, input: object) -> dict[str, Any]:
    return seen(await context.results(), await context.needs())


def keeper(context: Context, words: list[str]) -> None:
    """Keeps each word under its number."""
    for number, word in enumerate(words):
        context.artefact(f"word {number}", word.encode(), "text/plain")


def read(context: Context, strangers: list[str]) -> dict[str, Any]:
    """What the jobs that this one waited for keep, and those that it did not wait for."""
    found = {}
    for job_id in [*context.needs(), *strangers]:
        for name, kept in context.artefacts_of(job_id).items():
            with context.open_artefact(kept) as file:
                found[f"{name} of {job_id}"] = file.read().decode()
    return found


async def read_awaits(context: Any, strangers: list[str]) -> dict[str, Any]:
    found = {}
    for job_id in [*await context.needs(), *strangers]:
        for name, kept in (await context.artefacts_of(job_id)).items():
            with await context.open_artefact(kept) as file:
                found[f"{name} of {job_id}"] = file.read().decode()
    return found


READERS = [
    Kind("keeper", 1, keeper, list[str]),
    Kind("reader.thread", 1, read, list[str], max_attempts=1),
    Kind("reader.process", 1, read, list[str], max_attempts=1, isolation="process"),
    Kind("reader.coroutine", 1, read_awaits, list[str], max_attempts=1),
]
JOINS = [
    Kind("join.thread", 1, join, Any),
    Kind("join.process", 1, join, Any, isolation="process"),
    Kind("join.coroutine", 1, join_awaits, Any),
]
LEAF_OR_NOT = Kind("leaf.ornot", 1, leaf_or_not, str)
THREAD = Kind("parent.thread", 1, parent, Orders)
PROCESS = Kind("parent.process", 1, parent, Orders, isolation="process")
COROUTINE = Kind("parent.coroutine", 1, parent_awaits, Orders)
LEAF = Kind("leaf", 1, leaf, str)

app = App("family", [THREAD, PROCESS, COROUTINE, LEAF, LEAF_OR_NOT, *JOINS, *READERS])


@app.task
def leaf_task(times: int) -> int:
    return times
