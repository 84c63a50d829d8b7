"""Keeps `perenne-snapshot.json` true: written soon after this process changed something, seldom, and once at its end.

A thread of its own that sleeps until something changed; readers never start it. What does not live here: the document
(`snapshot`). A snapshot is for windows: what goes wrong with it is logged and fails nobody.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perenne.crashpoints import crash_point
from perenne.errors import EngineError
from perenne.files import atomic, regular
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.runtime import snapshot
from perenne.runtime.clock import Clock
from perenne.runtime.joblog import JobLog
from perenne.store import overview
from perenne.store.driver import Block, Driver, Growth, Transaction
from perenne.store.overview import Overview, Seen

EVERY_S = 0.2
SOON_S = 0.1  # changes come in crowds
LOCK_S = 2.0  # how long another writer is waited for
CLOSE_S = 10.0

T = TypeVar("T")


class Keeper:
    """Writes the snapshot of one workspace from one process."""

    def __init__(self, workspace: Workspace, driver: Driver, clock: Clock) -> None:
        self._workspace, self._driver = workspace, driver
        self._log = JobLog(workspace, "engine", 0, clock)
        self._path = workspace.root / snapshot.NAME
        self._process = os.getpid()
        self._changed, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._seen: Seen | None = None
        self._last: Overview | None = None
        self._ours: tuple[int, int] | None = None  # inode and time of the file that we wrote last
        self._unwell = False

    def touch(self) -> None:
        """Something changed in this process; cheap, and never waits."""
        if self._changed.is_set():
            return
        self._changed.set()
        if self._thread is None and not self._closing.is_set() and os.getpid() == self._process:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="perenne-snapshot", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """End the thread; what it did not write yet is written now. In a forked child it does nothing."""
        if os.getpid() != self._process:
            return
        self._closing.set()
        with self._starting:
            thread = self._thread
        if thread is not None:
            self._changed.set()
            thread.join(CLOSE_S)

    def _run(self) -> None:
        """Write soon after the first change, then as long as there are more at most once in so long."""
        pause_s = SOON_S
        while True:
            self._changed.wait()
            self._closing.wait(pause_s)
            closing = self._closing.is_set()
            self._changed.clear()
            began = time.monotonic()
            self._write()
            if closing:
                return
            pause_s = max(EVERY_S - (time.monotonic() - began), SOON_S)

    def _write(self) -> None:
        try:
            self._keep()
            self._unwell = False
        except (EngineError, OSError) as error:
            if not self._unwell:
                self._log.write("warning", "snapshot_not_written", error=str(error))
            self._unwell = True

    def _keep(self) -> None:
        lock = self._take_lock()
        if lock is None:
            self._changed.set()  # whoever holds it has read before our change
            raise EngineError(f"{self._workspace.snapshot_lock} is held for more than {LOCK_S:g} s")
        with lock:
            # Read under the lock: so of two writers the later one has read the later state.
            view, self._seen = overview.look_again(self._driver, self._seen)
            if view == self._last and self._stands():
                return
            if self._is_older(view):
                return
            self._sweep()
            document = snapshot.compose(self._workspace, view)
            atomic.write(self._path, snapshot.encode(document), protocol="snapshot")
            self._last, self._ours = view, _identity(self._path)

    def _take_lock(self) -> Lock | None:
        deadline = time.monotonic() + LOCK_S
        while (lock := Lock.take(self._workspace.snapshot_lock)) is None and time.monotonic() < deadline:
            time.sleep(0.005)  # the other one writes a file; there is no other thing to wait for
        return lock

    def _stands(self) -> bool:
        return self._ours is not None and self._ours == _identity(self._path)

    def _is_older(self, view: Overview) -> bool:
        """Whether the file that stands there is of this workspace and tells of a later state; what is no snapshot never
        does."""
        if self._stands():
            return False
        try:
            head = msgspec.json.decode(regular.read(self._path, limit_bytes=snapshot.MOST_BYTES), type=snapshot.Head)
        except (EngineError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        later = (head.epoch, head.revision) > (view.epoch, view.revision)
        return later and head.workspace == self._workspace.id

    def _sweep(self) -> None:
        """Remove what killed writers left; under the lock no other can be at it. What stays is for the next write."""
        folder = self._path.parent
        with contextlib.suppress(OSError):
            for left in [name for name in os.listdir(folder) if name.startswith(f"{snapshot.NAME}.stage-")]:
                os.unlink(folder / left)
                crash_point("snapshot.leftover_removed")


class Watched:
    """A driver whose writes are shown: it tells the keeper of each, and lets it write once more at the end."""

    def __init__(self, driver: Driver, keeper: Keeper) -> None:
        self._driver, self._keeper = driver, keeper
        self.touch = keeper.touch

    def __getattr__(self, name: str) -> Any:
        """What a driver has beside the protocol."""
        return getattr(self._driver, name)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """As `Driver.read`."""
        return self._driver.read(work)

    def close(self) -> None:
        """As `Driver.close`."""
        self._keeper.close()
        self._driver.close()

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        recheck: Callable[[Transaction, T], bool] | None = None,
        durable: bool = True,
        then: Callable[[], None] | None = None,
    ) -> T:
        """As `Driver.write`."""
        answer = self._driver.write(work, recheck=recheck, durable=durable, then=then)
        self._keeper.touch()
        return answer

    def block(self) -> Block:
        """As `Driver.block`."""
        return _WatchedBlock(self._driver.block(), self._keeper)

    def refusal(self, growth: Growth) -> EngineError | None:
        """As `Driver.refusal`."""
        return self._driver.refusal(growth)


class _WatchedBlock:
    """A block whose commit is told."""

    def __init__(self, block: Block, keeper: Keeper) -> None:
        self._block, self._keeper = block, keeper

    def run(self, work: Callable[[Transaction], T]) -> T:
        """As `Block.run`."""
        return self._block.run(work)

    def commit(self, *, recheck: Callable[[Transaction], bool] | None = None) -> None:
        """As `Block.commit`."""
        self._block.commit(recheck=recheck)
        self._keeper.touch()

    def undo(self) -> None:
        """As `Block.undo`."""
        self._block.undo()


def _identity(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        return found.st_ino, found.st_mtime_ns
    return None
