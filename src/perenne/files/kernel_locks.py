"""Which processes hold locks on a file, as the kernel's list shows them: for people, without touching the file.

Only Linux shows its locks; elsewhere nobody is named. What does not live here: taking locks (`lock`), and proof of
death: a name in a list proves that a process lives, but no list proves that nobody does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIST = Path("/proc/locks")
_NAMED = 3


class Holder(NamedTuple):
    """A process that holds a lock; a stopped one holds it until it is continued or ended."""

    pid: int
    command: str
    stopped: bool

    def __str__(self) -> str:
        if self.pid == os.getpid():
            return f"this process ({self.pid})"
        return f"process {self.pid} ({self.command or 'name unknown'}{', stopped' if self.stopped else ''})"


def are_listed() -> bool:
    """Whether this system shows its locks."""
    return os.access(LIST, os.R_OK)


def holders(path: Path) -> list[Holder]:
    """Who holds a lock of any sort on the file, by pid; nobody when the file is missing or locks are not shown."""
    try:
        found = os.stat(path)
        lines = LIST.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    held = {pid: place for line in lines for pid, place, inode in _read(line) if inode == found.st_ino}
    # Some file systems show another device in the list than in stat; then the process must have the file open.
    return [look(pid) for pid in sorted(held) if held[pid] == device or _has_open(pid, found)]


def sentence(found: list[Holder]) -> str:
    """At most three of them by name."""
    names = ", ".join(str(one) for one in found[:_NAMED])
    return names + (" and others" if len(found) > _NAMED else "") or "another process"


def look(pid: int) -> Holder:
    """The process as it is now; without a name when it cannot be seen."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Holder(pid, "", stopped=False)
    # The command stands in parentheses and may hold blanks and parentheses itself.
    command, _, rest = text.partition("(")[2].rpartition(")")
    return Holder(pid, command, stopped=rest.split()[0] in ("T", "t"))


def _read(line: str) -> Iterator[tuple[int, str, int]]:
    """Pid, device and inode of a line that is a lock; a line that waits for one begins with an arrow.

    Source: proc(5), /proc/locks.
    """
    match line.split():
        case [_, "POSIX" | "FLOCK" | "OFDLCK", _, _, pid, place, _, _] if pid.isdecimal():
            device, _, inode = place.rpartition(":")
            yield int(pid), device, int(inode)


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    try:
        return any(_is(entry.path, wanted) for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _is(path: str, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), wanted)
    except OSError:
        return False


def keepers(path: Path) -> list[int]:
    """Processes that keep the lock on a file through a descriptor of their own, taken or inherited from a dead one.

    Source: proc(5), /proc/PID/fdinfo: `lock:` lines of a descriptor.
    """
    try:
        wanted = os.stat(path)
        others = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
    except OSError:
        return []
    return [pid for pid in others if _keeps(pid, wanted)]


def _keeps(pid: int, wanted: os.stat_result) -> bool:
    try:
        found = [entry.name for entry in os.scandir(f"/proc/{pid}/fd") if _is(entry.path, wanted)]
        return any("lock:" in Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="ascii") for name in found)
    except OSError:
        return False
