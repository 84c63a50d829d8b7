"""A ledger that another process holds for a moment, as one that recovers its WAL does, is waited for when opened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import apsw
import pytest

from perenne.errors import StoreBusy
from perenne.store.sqlite import driver
from perenne.store.sqlite.driver import SQLiteDriver

WORKSPACE = "82000000-0000-4000-8000-000000000001"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    driver.create(path, workspace=WORKSPACE, now=1)
    return path


@pytest.fixture
def locked(ledger: Path) -> Iterator[apsw.Connection]:
    """Another connection that lets nobody in, not even a reader."""
    connection = apsw.Connection(str(ledger))
    connection.pragma("locking_mode", "exclusive")
    connection.execute("begin exclusive; update store set paused = 0; commit")
    yield connection
    connection.close()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_opening_waits(ledger: Path, locked: apsw.Connection, mode: Literal["read", "write"]) -> None:
    """Opening waits until the other lets go, then works."""
    release = threading.Timer(0.1, locked.close)
    release.start()
    opened = SQLiteDriver(ledger, workspace=WORKSPACE, mode=mode)
    release.join()
    assert opened.read(lambda tx: tx.one("read_store")) is not None
    opened.close()


def test_opening_waits_not_for_ever(ledger: Path, locked: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is never let go is refused when the deadline is over."""
    monkeypatch.setattr(driver, "BUSY_S", 0.05)
    with pytest.raises(StoreBusy):
        SQLiteDriver(ledger, workspace=WORKSPACE)
