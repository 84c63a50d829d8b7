"""No view of ours grows old, and a view that fails is replaced."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from perenne.errors import StoreBusy, StoreFailed
from perenne.store.sqlite import driver, reading
from perenne.store.sqlite.driver import SQLiteDriver

Open = Callable[..., SQLiteDriver]

ENDLESS = "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n"


@pytest.fixture
def short_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_READ_S", 0.05)
    monkeypatch.setitem(driver.queries(), "endless", ENDLESS)


@pytest.mark.usefixtures("short_views")
def test_long_statement_is_ended(open_store: Open) -> None:
    """A single statement that would run for ever ends at the bound; the next read works."""
    store = open_store()
    started = time.monotonic()
    with pytest.raises(StoreBusy, match=r"took longer than 0\.05 s"):
        store.read(lambda tx: tx.one("endless"))
    assert time.monotonic() - started < 5
    assert store.read(lambda tx: tx.one("read_store"))


@pytest.mark.usefixtures("short_views")
def test_long_view_is_ended(open_store: Open) -> None:
    """A view of many short statements ends as well, and holds no lock afterwards."""
    store = open_store()

    def read(tx: Any) -> None:
        while True:
            tx.all("list_queues")

    with pytest.raises(StoreBusy, match="ask for less at once"):
        store.read(read)
    assert store._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE) == (0, 0)


@pytest.mark.usefixtures("short_views")
def test_view_that_waits_is_ended_at_its_next_statement(open_store: Open) -> None:
    """Time that passes between two statements counts as well."""
    store = open_store()

    def read(tx: Any) -> None:
        tx.one("read_store")
        ends_at = time.monotonic() + 0.1
        while time.monotonic() < ends_at:
            pass
        tx.one("read_store")

    with pytest.raises(StoreBusy, match="took longer"):
        store.read(read)


@pytest.mark.usefixtures("short_views")
def test_each_view_has_its_own_bound(open_store: Open) -> None:
    """Reads that follow one another are never too old together."""
    store = open_store()
    ends_at = time.monotonic() + 0.2
    while time.monotonic() < ends_at:
        assert store.read(lambda tx: tx.one("read_store"))


def test_writers_have_no_such_bound(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is for views; a write that is slow is let finish."""
    monkeypatch.setattr(reading, "MOST_READ_S", 0.0)
    assert open_store().write(lambda tx: tx.one("read_store"))


@pytest.mark.parametrize("mode", ["read", "write"])
def test_failed_reader_is_replaced(open_store: Open, disk: Any, mode: Any) -> None:
    """A read that met an I/O error says so in our words; the next one reads through a fresh connection."""
    store = open_store(mode=mode, vfs=disk.name)
    store.read(lambda tx: tx.one("read_store"))
    assert store._reading._view is not None
    store._reading._view.connection.pragma("cache_size", 0)
    store._reading._view.connection.pragma("shrink_memory")
    disk.fail("read", "database", apsw.IOError, 266)
    with pytest.raises(StoreFailed, match="check the disk"):
        store.read(lambda tx: tx.all("list_queues"))
    assert store._reading._view is None
    disk.heal()
    assert store.read(lambda tx: tx.all("list_queues"))
