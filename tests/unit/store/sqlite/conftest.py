"""A ledger in a temporary folder, a disk that fails when told to, and looks at the file from another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne.core.job import Submission
from perenne.store.ledger import Ledger
from perenne.store.sqlite import driver
from perenne.store.sqlite.driver import SQLiteDriver

WORKSPACE = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A new ledger with one queue, closed."""
    path = tmp_path / "ledger.sqlite"
    driver.create(path, workspace=WORKSPACE, now=1)
    opened = SQLiteDriver(path, workspace=WORKSPACE)
    Ledger(opened).add_queue("default", 1_000_000)
    opened.close()
    return path


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[..., SQLiteDriver]]:
    """Opens the ledger, as often as one likes; everything is closed at the end."""
    opened: list[SQLiteDriver] = []

    def open_store(**options: Any) -> SQLiteDriver:
        opened.append(SQLiteDriver(path, workspace=WORKSPACE, **options))
        return opened[-1]

    yield open_store
    for one in opened:
        one.close()


@pytest.fixture
def submission() -> Callable[[int], Submission]:
    """The n-th job of a test."""
    return lambda n: Submission(id=f"00000000-0000-4000-8000-{n:012d}", kind="sum", version=1, input=b"{}")


class Disk:
    """A VFS whose files fail at the calls that a test names, as often as it says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[tuple[str, str]] = []
        self.wal_room_bytes = 1 << 40
        self._plan: tuple[str, str, type[apsw.Error], int, int, int] | None = None

    def fail(
        self, call: str, file: str, error: type[apsw.Error], code: int, *, passes: int = 0, times: int = 10**9
    ) -> None:
        """From now on `call` on the file with this ending fails, after `passes` successes, `times` times."""
        self._plan = (call, file, error, code, passes, times)

    def heal(self) -> None:
        self._plan = None

    def meet(self, call: str, file: str) -> None:
        self.calls.append((call, file))
        if self._plan is None or self._plan[:2] != (call, file):
            return
        *_, error, code, passes, times = self._plan
        self._plan = (call, file, error, code, passes - 1, times - (passes <= 0))
        if passes <= 0 < times:
            failure = error("injected")
            failure.extendedresult = code  # type: ignore[attr-defined]
            raise failure


class _VFS(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        ending = "wal" if path.endswith("-wal") else "database"
        self.disk.meet("open", ending)
        return _File(self.disk, ending, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, ending: str, name: Any, flags: list[int]) -> None:
        self._disk, self._ending = disk, ending
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.meet("read", self._ending)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.meet("write", self._ending)
        if self._ending == "wal" and offset + len(data) > self._disk.wal_room_bytes:
            raise apsw.FullError("no room")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.meet("sync", self._ending)
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A disk that works until it is told to fail; open the store with `vfs=disk.name`."""
    disk = Disk(f"failing-{os.getpid()}")
    vfs = _VFS(disk)
    yield disk
    disk.heal()
    vfs.unregister()


_LOOK = """
import json, shutil, sys, tempfile, os, apsw
path, sql, crashed = sys.argv[1], sys.argv[2], sys.argv[3] == "crashed"
with tempfile.TemporaryDirectory() as folder:
    if crashed:
        for end in ("", "-wal"):
            shutil.copy(path + end, os.path.join(folder, "x" + end))
        path = os.path.join(folder, "x")
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE if crashed else apsw.SQLITE_OPEN_READONLY)
    if not crashed:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    print(json.dumps(connection.execute(sql).fetchall()))
    connection.close()
"""


def _look(path: Path, sql: str, how: str) -> list[list[Any]]:
    answer = subprocess.run(
        [sys.executable, "-c", _LOOK, str(path), sql, how], capture_output=True, text=True, check=True, timeout=30
    )
    found: list[list[Any]] = json.loads(answer.stdout)
    return found


@pytest.fixture
def rows(path: Path) -> Callable[[str], list[list[Any]]]:
    """What another process sees in the ledger."""
    return lambda sql: _look(path, sql, "live")


@pytest.fixture
def rows_after_crash(path: Path) -> Callable[[str], list[list[Any]]]:
    """What would be found if every process that has the ledger open died now: shared memory goes, the WAL stays."""
    return lambda sql: _look(path, sql, "crashed")
