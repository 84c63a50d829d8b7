"""Killed anywhere, an application's rows stand with the job they belong to: both, or neither, and once.

The application pays each order once: a row with the order's number, which the table lets in as often as one likes, so
that a second payment would be seen.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from harness import ledger_file, processes

import perenne
from perenne import App, Context, Kind
from perenne.core import limits

pytestmark = pytest.mark.crash

ENDING = ["claim.committed", "run.executed", "acknowledge.begun", "acknowledge.written", "acknowledge.committed"]
SUBMITTING = ["submit.written", "submit.committed", "submit.woken"]


def pay(context: Context, order: int) -> object:
    return context.complete(
        order, also=lambda tables: tables.execute("insert into shop_payment values (?, ?)", (order, context.attempt))
    )


APP = App(
    "shop",
    [Kind("shop.pay", 1, pay, int, max_attempts=100)],
    queues={"default": 1000},
    migrations=["create table shop_payment (of integer not null, attempt integer not null)"],
)


class Shop:
    """A workspace of the shop, and processes that work in it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.log = folder / "w", folder / "children.log"
        assert self.run("shop", lambda: perenne.create(self.root, APP, name="shop", specimen=True)) == 0

    def run(self, name: str, work: Callable[[], object], **environment: str) -> int | None:
        return processes.fork(name, work, self.log, environment).end()

    def order(self, first: int, count: int) -> None:
        """Submit so many orders and note them, in one transaction."""
        with perenne.open(self.root, APP) as engine, engine.transaction() as tx:
            for number in range(first, first + count):
                tx.submit("shop.pay", number)
                tx.execute("insert into shop_payment values (?, 0)", (-number,))

    def work(self) -> None:
        with perenne.open(self.root, APP, access="work") as engine:
            engine.work(slots=2)

    def rows(self) -> list[int]:
        """Orders in the application's table, negative where they were only noted; read beside the engine."""
        connection = apsw.Connection(str(self.root / ".perenne" / "ledger.sqlite"), apsw.SQLITE_OPEN_READONLY)
        try:
            return sorted(of for (of,) in connection.execute("select of from shop_payment"))
        finally:
            connection.close(True)

    def jobs(self) -> dict[int, str]:
        """The state of the job of each order."""
        return {int(job["input"]): job["state"] for job in ledger_file.read(self.root / ".perenne/ledger.sqlite").job}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(limits, "BLOCK_S", 20.0)  # reason: a loaded machine may stop a child for longer than a block
    return Shop(tmp_path)


@pytest.mark.parametrize("point", ENDING)
@pytest.mark.parametrize("count", [1, 3])
def test_each_order_is_paid_once_wherever_the_worker_dies(shop: Shop, point: str, count: int) -> None:
    """A payment is there exactly when its job is COMPLETED, right after the kill and when all is done."""
    assert shop.run("orders", lambda: shop.order(1, 4)) == 0
    assert shop.run("worker", shop.work, PERENNE_CRASH_POINT=f"{point}:{count}") == -9, shop.log.read_text()
    paid = [of for of in shop.rows() if of > 0]
    assert paid == sorted(order for order, state in shop.jobs().items() if state == "COMPLETED")
    assert shop.run("next worker", shop.work) == 0, shop.log.read_text()
    assert [of for of in shop.rows() if of > 0] == [1, 2, 3, 4]
    assert set(shop.jobs().values()) == {"COMPLETED"}


@pytest.mark.parametrize("point", SUBMITTING)
def test_orders_and_their_notes_stand_together(shop: Shop, point: str) -> None:
    """Killed before the commit neither jobs nor rows are there, after it all of them."""
    assert shop.run("orders", lambda: shop.order(1, 3), PERENNE_CRASH_POINT=point) == -9
    there = [] if point == "submit.written" else [1, 2, 3]
    assert (sorted(shop.jobs()), sorted(-of for of in shop.rows())) == (there, there)


def test_killed_at_random_nothing_is_paid_twice_or_forgotten(shop: Shop, seed: int) -> None:
    """Workers that die at random points of random ends leave, in the end, one payment an order."""
    luck = random.Random(seed)
    assert shop.run("orders", lambda: shop.order(1, 40)) == 0
    for _ in range(12):
        armed = f"{luck.choice(ENDING)}:{luck.randint(1, 6)}"
        shop.run("worker", shop.work, PERENNE_CRASH_POINT=armed)
        paid: Any = Counter(of for of in shop.rows() if of > 0)
        done = Counter(order for order, state in shop.jobs().items() if state == "COMPLETED")
        assert paid == done, f"seed {seed}"
    assert shop.run("last worker", shop.work) == 0, shop.log.read_text()
    assert [of for of in shop.rows() if of > 0] == list(range(1, 41)), f"seed {seed}"
