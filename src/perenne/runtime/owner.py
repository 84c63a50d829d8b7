"""A worker's proof of life: a kernel lock that it holds from before it opens the store until it is dead.

Who can take the lock of an owner has proof that the owner is dead. No age, no pid, no time stands in for it. Where one
worker at a time is allowed, `worker.lock` is taken first, so that the second one opens nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from perenne.errors import WorkerAlreadyRuns
from perenne.files import atomic
from perenne.files.lock import Lock, holder
from perenne.files.workspace import Workspace
from perenne.store.owners import Owner

PATIENCE_S = 2.0

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 21  # of /proc/PID/stat, counted from 0
_TEXT = re.compile(r"worker \S+, pid (?P<pid>\d+), started (?P<started>\d+), boot (?P<boot>\S+)")


@dataclass(frozen=True)
class Holding:
    """A worker's place: who it is, and the locks that prove it lives, in the order they were taken."""

    owner: Owner
    locks: tuple[Lock, ...]

    def release(self) -> None:
        """Let go, last taken first; the owner's own lock file goes with it, for its name is never used again.

        In a forked child it does nothing: the locks, and the life they prove, are the parent's.
        """
        own = self.locks[-1]
        if own.held:
            with contextlib.suppress(OSError):  # the next sweep removes it; the locks must not stay taken for a name
                own.path.unlink()
        for lock in reversed(self.locks):
            lock.release()


def take(workspace: Workspace, *, alone: bool) -> Holding:
    """Become a worker of this workspace; alone: the only one.

    Raises: WorkerAlreadyRuns: names the holder; nothing was opened.
    """
    owner = Owner(str(uuid.uuid4()), os.getpid(), boot_id(), started(os.getpid()) or "unknown")
    text = f"worker {owner.id}, pid {owner.pid}, started {owner.started}, boot {owner.boot_id}\n"
    first = [_take_alone(workspace.worker_lock, text)] if alone else []
    try:
        atomic.make_folder(workspace.owners_folder)
        atomic.make_folder(workspace.children_folder)
        atomic.make_folder(workspace.checkpoints_folder)  # of a workspace from before there were any, or of a lost one
        while (own := Lock.take(workspace.lock_of(owner.id), text=text)) is None:
            pass  # a recovery took the new file for one of a dead owner, and is removing it
    except BaseException:
        for lock in first:
            lock.release()
        raise
    return Holding(owner, (*first, own))


def _take_alone(path: Path, text: str) -> Lock:
    held = Lock.take(path, text=text)
    # A process that died while it was starting another leaves a copy of its lock in it, until that one runs its own
    # program. What is known of the holder decides whether to wait, never whether to take: only the kernel says that.
    patient_until = time.monotonic() + PATIENCE_S
    while held is None and _is_dead(holder(path)) and time.monotonic() < patient_until:
        time.sleep(0.005)
        held = Lock.take(path, text=text)
    if held is None:
        raise _refusal(path)
    return held


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
    return named["boot"] != boot_id() or started(int(named["pid"])) != named["started"]


def boot_id() -> str:
    """The id of this boot, or `unknown`."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


def started(pid: int) -> str | None:
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
