"""Wakes whoever waits: one named pipe a waiting process, in the workspace's wake folder; nothing polls.

A byte says only "look again"; the ledger says what happened. A lost wake-up of a dead process is no loss.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from perenne.crashpoints import crash_point
from perenne.files import atomic

TICK_NS = 100_000_000  # ten of the coarsest clock; one of whole seconds is recognised and never relied on


def drain(descriptor: int) -> None:
    """Read all that is in a pipe that does not block."""
    with contextlib.suppress(BlockingIOError):
        while len(os.read(descriptor, 4096)) == 4096:
            pass


class Readable(Protocol):
    """Something to wait for beside the bell."""

    def fileno(self) -> int: ...


class Bell:
    """The pipe of one waiting process.

    Raises: StoreFailed, DiskLow: it cannot be made; nothing of it is left.
    Guarantees: a pipe that can be seen in the folder has a reader, or its process is dead.
    """

    def __init__(self, folder: Path) -> None:
        with atomic.explained(folder, "used to be woken in"):
            while (hung := _hang(folder)) is None:
                pass  # a recovery took the unfinished pipe for one of a dead process
        self.path, self._descriptor = hung
        self._closing = threading.RLock()  # reentrant, for a signal handler that rings while its own thread closes

    def fileno(self) -> int:
        """A descriptor that is readable once the bell was rung."""
        return self._descriptor

    def ring(self) -> None:
        """Ring one's own bell; safe in a signal handler, and nothing once it is closed."""
        with self._closing, contextlib.suppress(BlockingIOError):
            if self._descriptor >= 0:
                os.write(self._descriptor, b"!")

    def wait(self, timeout_s: float | None, also: Sequence[Readable] = ()) -> list[Readable]:
        """Sleep until rung, until one of `also` is readable, or until the time is over; answers what is readable.

        Many rings are heard as one.
        """
        readable, _, _ = select.select([self, *also], [], [], timeout_s)
        if self in readable:
            drain(self._descriptor)
        return readable

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a pipe without a reader is removed by the next worker
            self.path.unlink()
        crash_point("wake.pipe_removed")
        with self._closing:
            os.close(self._descriptor)
            self._descriptor = -1  # its number will be somebody else's

    def __enter__(self) -> Bell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Bells:
    """Every bell in one folder, to be rung."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._names: list[str] = []
        self._changed_ns = 0  # when the folder had last changed, as it was read; 0 while that cannot be relied on
        self._listing = threading.Lock()  # a descriptor has one place in its folder, whoever reads

    def ring(self, but: str | None = None) -> int:
        """Ring every bell but the one named; how many heard it. Never waits; a dead process hears nothing.

        Raises: OSError: the folder cannot be read.
        """
        with self._listing:
            if self._descriptor is None:
                self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            names = self._list(self._descriptor)
            return sum([_ring(name, self._descriptor) for name in names if name != but])

    def _list(self, folder: int) -> list[str]:
        """Names of the bells; the folder is read again only when it has changed."""
        changed_ns = os.fstat(folder).st_mtime_ns
        if changed_ns != self._changed_ns:
            self._names = [name for name in os.listdir(folder) if not name.startswith(".")]
            # Two changes within one tick of the file system's clock bear the same time; a later one cannot.
            settled = time.time_ns() - changed_ns > TICK_NS and changed_ns % 1_000_000_000
            self._changed_ns = changed_ns if settled else 0
        return self._names

    def close(self) -> None:
        with self._listing:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def remove_dead(folder: Path) -> None:
    """Remove the pipes of dead processes, named or not; what cannot be removed now is left to the next worker."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if _is_dead(entry.path):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                    crash_point("wake.pipe_removed")


def _hang(folder: Path) -> tuple[Path, int] | None:
    """A new pipe and its descriptor; None when it vanished before it had a reader."""
    name = uuid.uuid4().hex
    hidden, path = folder / f".{name}", folder / name
    os.mkfifo(hidden, 0o600)
    crash_point("wake.pipe_made")
    descriptor = -1
    try:
        # Open for both ends, so that the pipe never reports an end; under its real name only once it has a reader.
        descriptor = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.rename(hidden, path)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, FileNotFoundError):
            return None
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
    crash_point("wake.pipe_named")
    return path, descriptor


def _ring(name: str, folder: int) -> bool:
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return False
    try:
        os.write(descriptor, b"!")
    except BlockingIOError:
        pass  # its pipe is full of rings already
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _is_dead(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW))
    except OSError as error:
        return error.errno == errno.ENXIO
    return False
