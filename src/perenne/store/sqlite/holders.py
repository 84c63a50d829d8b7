"""Which processes hold a store back, as the kernel's list of locks shows it: for people, in a sentence.

Only Linux shows its locks; elsewhere nobody is named. A name here proves nothing and stops nobody.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_LOCKS = Path("/proc/locks")
# Bytes of the shared memory file that SQLite locks in WAL mode. Source: SQLite, "WAL-mode File Format", section 2.3.
_WRITE = range(120, 121)
_READ = range(123, 128)
_NAMED = 3


class Holder(NamedTuple):
    """A process that holds a lock; stopped ones hold it until they are continued or ended."""

    pid: int
    command: str
    stopped: bool

    def __str__(self) -> str:
        said = f"process {self.pid} ({self.command or 'name unknown'}{', stopped' if self.stopped else ''})"
        return f"this process ({self.pid})" if self.pid == os.getpid() else said


def writers(database: Path) -> list[Holder]:
    """Who holds the write lock: nobody or one."""
    return _holders(database, _WRITE)


def readers(database: Path) -> list[Holder]:
    """Who is in the middle of a read transaction, so that the WAL cannot be emptied past it."""
    return _holders(database, _READ)


def sentence(holders: list[Holder], unknown: str) -> str:
    """At most three of them by name, or `unknown` when there are none to name."""
    names = [str(holder) for holder in holders[:_NAMED]]
    return ", ".join(names) + (" and others" if len(holders) > _NAMED else "") or unknown


def _holders(database: Path, region: range) -> list[Holder]:
    try:
        inode = os.stat(f"{os.path.realpath(database)}-shm").st_ino
        lines = _LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    pids = sorted({pid for line in lines if (pid := _pid_of(line, inode, region))})
    return [_holder(pid) for pid in pids]


def _pid_of(line: str, inode: int, region: range) -> int | None:
    """The owner, when the line is a lock on that inode which meets the region; a line that waits begins with `->`."""
    match line.split():
        case [_, "POSIX", _, _, pid, place, first, last] if place.rpartition(":")[2] == str(inode):
            end = region.stop if last == "EOF" else int(last) + 1
            return int(pid) if int(first) < region.stop and end > region.start else None
    return None


def _holder(pid: int) -> Holder:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Holder(pid, "", stopped=False)
    # The command stands in parentheses and may hold blanks and parentheses itself.
    command, _, rest = text.partition("(")[2].rpartition(")")
    return Holder(pid, command, stopped=rest.split()[0] in ("T", "t"))
