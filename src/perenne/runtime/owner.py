"""A worker's proof of life: a kernel lock that it holds from before it opens the store until it is dead.

Who can take the lock has proof that the last owner is dead. No age, no pid, no time stands in for it.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from perenne.errors import WorkerAlreadyRuns
from perenne.files.lock import Lock, holder
from perenne.store.owners import Owner

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 21  # of /proc/self/stat, counted from 0


def take(lock: Path) -> tuple[Owner, Lock]:
    """Become the one worker behind this lock.

    Raises: WorkerAlreadyRuns: names the holder; nothing was opened.
    """
    owner = Owner(str(uuid.uuid4()), os.getpid(), _boot_id(), _started())
    held = Lock.take(lock, text=f"worker {owner.id}, pid {owner.pid}, started {owner.started}, boot {owner.boot_id}\n")
    if held is None:
        raise WorkerAlreadyRuns(
            f"worker: {lock} is held by {holder(lock).strip() or 'another process'}; "
            f"let it finish, or stop it with SIGTERM, then try again",
            path=str(lock),
            holder=holder(lock).strip(),
        )
    return owner, held


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


def _started() -> str:
    """The start of this process in clock ticks since boot: with the boot id it tells a reused pid from the old one."""
    stat = Path("/proc/self/stat")
    if not stat.exists():
        return "unknown"
    # The command's name stands in parentheses and may hold blanks; what follows it does not.
    after_name = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return after_name[_START_FIELD - 2]
