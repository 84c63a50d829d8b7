"""Learns that another worker died by waiting for it, not by asking: a descriptor that becomes readable then.

What lives here: the waiting. What does not: the proof, which is the dead one's lock, and what follows (`recovery`).
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from perenne.files import atomic
from perenne.runtime import owner
from perenne.store.owners import Owner


class Watch:
    """Waits for the end of one other worker of this machine.

    Raises: StoreFailed: this process may open no more files.
    """

    def __init__(self, watched: Owner, lock: Path) -> None:
        self._thread: threading.Thread | None = None
        self._descriptor = _process_descriptor(watched)
        if self._descriptor is None:
            self._descriptor = self._wait_for_lock(lock)

    def fileno(self) -> int:
        """Readable once the worker has ended, or cannot be waited for any longer."""
        assert self._descriptor is not None
        return self._descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _wait_for_lock(self, lock: Path) -> int:
        """Where a process cannot be named (another pid namespace, macOS): a thread that queues for its lock."""
        with atomic.explained(lock, "waited for"):
            readable, writable = os.pipe()
        self._thread = threading.Thread(target=_queue_for, args=(lock, writable), daemon=True, name="watch")
        self._thread.start()
        return readable


def _process_descriptor(watched: Owner) -> int | None:
    if not hasattr(os, "pidfd_open") or watched.boot_id != owner.boot_id():
        return None
    try:
        descriptor = os.pidfd_open(watched.pid)
    except OSError:
        return None
    if owner.started(watched.pid) == watched.started:
        return descriptor
    os.close(descriptor)
    return None


def _queue_for(lock: Path, writable: int) -> None:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:
            os.close(descriptor)
    except OSError:
        pass  # it is gone, or cannot be waited for; who watches looks again
    finally:
        os.close(writable)
