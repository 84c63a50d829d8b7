"""Fixtures of the store: a new ledger file, and a look at every file of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perenne.store.sqlite import driver

WORKSPACE = "82000000-0000-4000-8000-000000000001"


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    """A new, closed ledger of the workspace `WORKSPACE`."""
    folder = tmp_path / "own"
    folder.mkdir()
    driver.create(folder / "ledger.sqlite", workspace=WORKSPACE, now=1)
    return folder / "ledger.sqlite"


@pytest.fixture(scope="session")
def contents_of() -> Callable[[Path], dict[str, bytes]]:
    """`contents_of(folder)`: the bytes of every file but shared memory, whose marks may move."""

    def look(folder: Path) -> dict[str, bytes]:
        return {file.name: b"" if file.suffix == ".sqlite-shm" else file.read_bytes() for file in folder.iterdir()}

    return look
