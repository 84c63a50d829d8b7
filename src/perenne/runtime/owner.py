"""A worker's proof of life: a kernel lock that it holds from before it opens the store until it is dead.

Who can take the lock of an owner has proof that the owner is dead. No age, no pid, no time stands in for it. Where one
worker at a time is allowed, `worker.lock` is taken first, so that the second one opens nothing.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from perenne.errors import WorkerAlreadyRuns
from perenne.files import atomic
from perenne.files.lock import Lock, holder
from perenne.files.workspace import Workspace
from perenne.store.owners import Owner

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 21  # of /proc/<pid>/stat, counted from 0


@dataclass(frozen=True)
class Holding:
    """A worker's place: who it is, and the locks that prove it lives, in the order they were taken."""

    owner: Owner
    locks: tuple[Lock, ...]

    def release(self) -> None:
        """Let go, last taken first; the owner's own lock file goes with it, for its name is never used again."""
        own = self.locks[-1]
        with contextlib.suppress(FileNotFoundError):
            own.path.unlink()
        for lock in reversed(self.locks):
            lock.release()


def take(workspace: Workspace, *, alone: bool) -> Holding:
    """Become a worker of this workspace; alone: the only one.

    Raises: WorkerAlreadyRuns: names the holder; nothing was opened.
    """
    owner = Owner(str(uuid.uuid4()), os.getpid(), boot_id(), started_of(os.getpid()))
    text = f"worker {owner.id}, pid {owner.pid}, started {owner.started}, boot {owner.boot_id}\n"
    first = [_take_alone(workspace.worker_lock, text)] if alone else []
    try:
        atomic.make_folder(workspace.owners_folder)
        own = Lock.take(workspace.lock_of(owner.id), text=text)
        assert own is not None, "a new name was locked by somebody else"
    except BaseException:
        for lock in first:
            lock.release()
        raise
    return Holding(owner, (*first, own))


def _take_alone(path: Path, text: str) -> Lock:
    held = Lock.take(path, text=text)
    if held is None:
        raise WorkerAlreadyRuns(
            f"worker: {path} is held by {holder(path).strip() or 'another process'}; "
            f"let it finish, or stop it with SIGTERM, then try again",
            path=str(path),
            holder=holder(path).strip(),
        )
    return held


def boot_id() -> str:
    """The id of this boot, or `unknown`."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


def started_of(pid: int) -> str:
    """The start of a process in clock ticks since boot: with the boot id it tells a reused pid from the old one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    # The command's name stands in parentheses and may hold blanks; what follows it does not.
    return stat.rpartition(")")[2].split()[_START_FIELD - 2]
