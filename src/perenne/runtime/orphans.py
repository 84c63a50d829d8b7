"""Proves that nothing of an attempt in a child runs any more: whatever does is ended, then its lock can be taken.

A lock file names the child, which may have closed its descriptors; the lock itself is kept by every copy that the
handler forked. What does not live here: the child that is attended to (`attendant`), and what follows (`recovery`).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Collection
from pathlib import Path

from perenne.crashpoints import crash_point
from perenne.files import atomic, kernel_locks, regular
from perenne.files.lock import Lock, text_in
from perenne.runtime import toolhost
from perenne.runtime.owner import boot_id, started

PATIENCE_S = 5.0  # a killed process is gone in milliseconds, unless its disk or its memory keeps it

Named = dict[str, str]  # the fields of the text of a lock file

_TEXT = re.compile(r"child of worker (?P<owner>\S+), pid (?P<pid>\d+), started (?P<started>\d+), boot (?P<boot>\S+)")


def text_of(owner: str, pid: int, started: str) -> str:
    """What stands in the lock file of an attempt."""
    return f"child of worker {owner}, pid {pid}, started {started}, boot {boot_id()}\n"


def of(folder: Path, owner: str, attempts: Collection[str]) -> dict[Path, Named]:
    """The lock files of these attempts, and of all children that this worker started; each with the child it names.

    Raises: StoreFailed: the machine could not list or read them, so nobody can tell what still runs.
    """
    found = {path: _named(path) for path in atomic.listed(folder, "*.lock")}
    return {path: named for path, named in found.items() if path.stem in attempts or named["owner"] == owner}


def end(path: Path, named: Named) -> Lock | None:
    """End the child that a lock file names and all that keeps its lock; the lock, or None when something would not end.

    The caller has proof that the worker of this child is dead.
    """
    _end_named(named)
    return take(path, protocol="recover")


def take(path: Path, *, protocol: str) -> Lock | None:
    """The lock of an attempt whose child let go of it, once what its handler forked is ended; None when it will not."""
    patient_until = time.monotonic() + PATIENCE_S
    while (lock := Lock.take(path, text=None)) is None:
        if time.monotonic() > patient_until:
            return None
        for pid in kernel_locks.keepers(path):
            _kill_keeper(pid, path, protocol)
        time.sleep(0.002)  # reason: the kernel lets a lock go a moment after a death, and does not tell
    return lock


def remove(lock: Lock, *, protocol: str) -> None:
    """Let go of the lock of an attempt that is over, and of its file, whose name is never used again.

    A file that cannot be removed is removed by a later worker.
    """
    with lock, contextlib.suppress(OSError):
        lock.path.unlink(missing_ok=True)
        crash_point(f"{protocol}.child_unlocked")


def _named(path: Path) -> Named:
    """What stands in a lock file; nothing when it is gone or none of ours. Raises StoreFailed: it cannot be read."""
    try:
        text = text_in(path)
    except OSError as error:
        if error.errno in regular.TROUBLE:
            raise regular.unreadable(path, error) from error
        text = ""
    named = _TEXT.match(text)
    return named.groupdict() if named else {"owner": "", "pid": "0", "started": "", "boot": ""}


def _end_named(named: Named) -> None:
    """Kill the group of the child, unless its number belongs to somebody else by now."""
    if named["boot"] != boot_id() or not hasattr(os, "pidfd_open"):
        return
    pid = int(named["pid"])
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return  # it is gone
    try:
        if started(pid) == named["started"]:
            toolhost.signal_group(pid, signal.SIGKILL)
            crash_point("recover.child_signaled")
            select.select([descriptor], [], [], PATIENCE_S)
    finally:
        os.close(descriptor)


def _kill_keeper(pid: int, path: Path, protocol: str) -> None:
    """A forked copy that left the group: it keeps the lock that only the child was regular."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if pid in kernel_locks.keepers(path):  # still, now that its number cannot become another's
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            crash_point(f"{protocol}.child_signaled")
    except OSError:
        pass
    finally:
        os.close(descriptor)
