"""A small shop as an application of Perenne: orders are taken, packed, and paid for exactly once."""

from __future__ import annotations

from typing import Any

import perenne
from perenne import App, Backoff, Context, Snooze

app = App(
    "taskapp",
    migrations=["create table taskapp_payment (item text not null, cents integer not null check (cents > 0))"],
)
closed = False  # the post office, for the tests


@app.task()
def add(a: int, b: int) -> int:
    """The smallest task: a plain function."""
    return a + b


@app.task(attempts=2, backoff=Backoff(base_s=60, cap_s=60), give_up_on=(ValueError,))
def pack(item: str, weight_g: int = 100) -> dict[str, Any]:
    """Fails for good when it can never work, and for a while when it may work later."""
    if weight_g <= 0:
        raise ValueError(f"{item} weighs {weight_g} g")
    if item == "glass":
        raise OSError("the glass broke")
    return {"item": item, "weight_g": weight_g}


@app.task()
def send(context: Context, item: str) -> Any:
    """Comes back tomorrow while the post office is closed, then has the parcel packed by another job."""
    if closed and context.attempt == 1:
        return Snooze(86_400, "the post office is closed")
    return pack.enqueue(item).job_id


@app.task(kind="taskapp.pay", version=2)
def pay(context: Context, item: str, cents: int) -> Any:
    """The payment and the end of the job are one transaction: there is never one without the other, nor two."""
    return context.complete(
        also=lambda tables: tables.execute("insert into taskapp_payment values (?, ?)", (item, cents))
    )


def order(engine: perenne.Engine, item: str, cents: int) -> str:
    """An order is sending and paying, or nothing: two jobs that stand together."""
    with engine.transaction():
        pay.enqueue(item, cents)
        return send.enqueue(item).job_id


def paid(engine: perenne.Engine) -> list[tuple[Any, ...]]:
    """What was paid so far."""
    with engine.transaction() as tx:
        return tx.execute("select item, cents from taskapp_payment order by item")
