"""The real ledger under trial: one file, two workers' connections to it, and the ways in which it is interrupted."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from perenne.errors import EngineError
from perenne.store.driver import Transaction
from perenne.store.ledger import Ledger
from perenne.store.notices import Notices
from perenne.store.owners import Owner, Owners
from perenne.store.sqlite import driver
from perenne.store.sqlite.driver import SQLiteDriver

WORKSPACE = "00000000-0000-4000-8000-000000000001"
OWNERS = ("owner-1", "owner-2")
QUEUES = {"wide": 24, "narrow": 3}
NOW = 1_750_000_000_000_000
_NAMES = ("ledger.sqlite", "ledger.sqlite-wal")


class Killed(BaseException):
    """The process dies here."""


class Watched:
    """A driver that lets something happen after so many of its queries; to the ledger it is the driver."""

    def __init__(self, path: Path) -> None:
        self.real = SQLiteDriver(path, workspace=WORKSPACE)
        # Whoever meets the other worker's lock is refused at once: in one thread nobody could let go meanwhile.
        self.real._writer._busy_s = 0.0  # type: ignore[union-attr]
        self._left = 0
        self._event: Callable[[], None] | None = None

    def let(self, event: Callable[[], None], after: int) -> None:
        self._event, self._left = event, after

    def still_to_come(self) -> bool:
        event, self._event = self._event, None
        return event is not None

    def asked(self) -> None:
        if self._event is not None:
            self._left -= 1
            if self._left < 0:
                event, self._event = self._event, None
                event()

    def write(self, work: Callable[[Transaction], Any], **wishes: Any) -> Any:
        return self.real.write(lambda tx: work(_Spied(tx, self)), **wishes)

    def read(self, work: Callable[[Transaction], Any]) -> Any:
        return self.real.read(lambda tx: work(_Spied(tx, self)))

    def refusal(self, growth: Any) -> EngineError | None:
        return self.real.refusal(growth)

    def close(self) -> None:
        self.real.close()


class _Spied:
    """A transaction that counts its queries."""

    def __init__(self, tx: Transaction, watched: Watched) -> None:
        self._tx, self._watched = tx, watched

    def __getattr__(self, name: str) -> Callable[..., Any]:
        query = getattr(self._tx, name)

        def asked(*names: str, **values: object) -> Any:
            answer = query(*names, **values)
            self._watched.asked()
            return answer

        return asked


class Worker:
    """One process that has the ledger open."""

    def __init__(self, path: Path) -> None:
        self.driver = Watched(path)
        self.ledger = Ledger(self.driver)
        self.notices = Notices(self.driver)


class Site:
    """A folder with a ledger, two workers on it, and somebody who looks at the file."""

    def __init__(self) -> None:
        self.folder = _folder()
        _copy(_template(), self.folder)
        self.path = self.folder / _NAMES[0]
        self.open()

    def open(self) -> None:
        self.one, self.two = Worker(self.path), Worker(self.path)
        self._look = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)

    def close(self) -> None:
        self._look.close()
        self.one.driver.close()
        self.two.driver.close()

    def leave(self) -> None:
        self.close()
        shutil.rmtree(self.folder)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What stands in the file, through no line of the engine."""
        return self._look.execute(query).fetchall()

    def raise_epoch(self, to: int) -> None:
        self._look.execute("update store set epoch = ?", (to,))

    def backup(self) -> Path:
        """A copy of the closed ledger."""
        self.close()
        kept = self.folder / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        _copy(self.folder, kept)
        self.open()
        return kept

    def restore(self, kept: Path) -> None:
        """Put the copy back, as if nothing had happened since."""
        self.close()
        (self.folder / f"{_NAMES[0]}-shm").unlink(missing_ok=True)
        _copy(kept, self.folder)
        self.open()


def _folder() -> Path:
    in_memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="machine-", dir=in_memory if in_memory.is_dir() else None))


def _copy(source: Path, target: Path) -> None:
    for name in _NAMES:
        shutil.copyfile(source / name, target / name)


@cache
def _template() -> Path:
    """A new ledger with its queues and owners, made once; nobody opens it again."""
    folder = _folder()
    atexit.register(shutil.rmtree, folder)
    driver.create(folder / _NAMES[0], workspace=WORKSPACE, now=NOW)
    opened = SQLiteDriver(folder / _NAMES[0], workspace=WORKSPACE)
    for name, capacity in QUEUES.items():
        Ledger(opened).add_queue(name, capacity)
    for number, owner in enumerate(OWNERS):
        Owners(opened).join(Owner(owner, 4242 + number, "boot", str(number)), now=NOW)
    opened.close()
    return folder
