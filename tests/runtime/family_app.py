"""An app whose handlers submit children: in a thread, in a process of their own, and as coroutines."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from perenne import App, Context, Kind


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


THREAD = Kind("parent.thread", 1, parent, Orders)
PROCESS = Kind("parent.process", 1, parent, Orders, isolation="process")
COROUTINE = Kind("parent.coroutine", 1, parent_awaits, Orders)
LEAF = Kind("leaf", 1, leaf, str)

app = App("family", [THREAD, PROCESS, COROUTINE, LEAF])


@app.task
def leaf_task(times: int) -> int:
    return times
