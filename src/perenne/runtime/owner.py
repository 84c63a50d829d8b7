"""A worker's proof of life: a kernel lock that it holds from before it opens the store until it is dead.

Who can take the lock has proof that the last owner is dead. No age, no pid, no time stands in for it.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from pathlib import Path

from perenne.errors import WorkerAlreadyRuns
from perenne.files.lock import Lock, holder
from perenne.store.owners import Owner

PATIENCE_S = 2.0

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 21  # of /proc/PID/stat, counted from 0
_TEXT = re.compile(r"worker \S+, pid (?P<pid>\d+), started (?P<started>\d+), boot (?P<boot>\S+)")


def take(lock: Path) -> tuple[Owner, Lock]:
    """Become the one worker behind this lock.

    Raises: WorkerAlreadyRuns: names the holder; nothing was opened.
    """
    owner = Owner(str(uuid.uuid4()), os.getpid(), _boot_id(), _started(os.getpid()) or "unknown")
    text = f"worker {owner.id}, pid {owner.pid}, started {owner.started}, boot {owner.boot_id}\n"
    held = Lock.take(lock, text=text)
    # A process that died while it was starting another leaves a copy of its lock in it, until that one runs its own
    # program. What is known of the holder decides whether to wait, never whether to take: only the kernel says that.
    patient_until = time.monotonic() + PATIENCE_S
    while held is None and _is_dead(holder(lock)) and time.monotonic() < patient_until:
        time.sleep(0.005)
        held = Lock.take(lock, text=text)
    if held is None:
        raise _refusal(lock)
    return owner, held


def _refusal(lock: Path) -> WorkerAlreadyRuns:
    who = holder(lock).strip()
    next_step = (
        "that process is dead, but one that it started still holds the lock; end that one"
        if _is_dead(who)
        else "let it finish, or stop it with SIGTERM"
    )
    return WorkerAlreadyRuns(
        f"worker: {lock} is held by {who or 'another process'}; {next_step}, then try again", path=str(lock), holder=who
    )


def _is_dead(text: str) -> bool:
    """Whether the holder that the text names is gone for sure; false when it cannot be told."""
    named = _TEXT.match(text)
    if named is None or not Path("/proc/self/stat").exists():
        return False
    return named["boot"] != _boot_id() or _started(int(named["pid"])) != named["started"]


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


def _started(pid: int) -> str | None:
    """The start of a process in clock ticks since boot: with the boot id it tells a reused pid from the old one.

    None when there is no such process, or it is dead and only waits to be reaped; "unknown" without /proc.
    """
    if not Path("/proc/self/stat").exists():
        return "unknown"
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in parentheses and may hold blanks; what follows it does not.
    state, *after = stat.rpartition(")")[2].split()
    return None if state in "ZX" else after[_START_FIELD - 3]
