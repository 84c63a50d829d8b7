"""A bound on the processes of one tool: a cgroup of its own with the pids controller, version 1 or 2.

What lives here: finding a folder of cgroups that this process may use, and making, entering and removing one. Where
there is none the number is not bounded, and the provenance says so; the kill of the group still ends them all.
Source: Linux, Documentation/admin-guide/cgroup-v1/pids.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache

_MOUNTS = "/sys/fs/cgroup"
_NAME = "perenne-"


@cache
def folder() -> str | None:
    """Where a cgroup with a bound can be made; found by making one."""
    for parent in _candidates():
        trial = os.path.join(parent, f"{_NAME}trial-{os.getpid()}")
        with contextlib.suppress(OSError):
            os.mkdir(trial)
            try:
                # In version 2 the files are there only where the parent gives the controller on.
                _write(trial, "pids.max", 1)
                return parent
            finally:
                os.rmdir(trial)
    return None


def _candidates() -> Iterator[str]:
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, own = line.rstrip("\n").split(":", 2)
            if "pids" in controllers.split(","):
                yield os.path.join(_MOUNTS, "pids", own.lstrip("/"))
            elif not controllers:
                place = os.path.join(_MOUNTS, own.lstrip("/"))
                yield from (place, os.path.dirname(place)) if own != "/" else (place,)


def _write(place: str, name: str, value: int) -> None:
    with open(os.path.join(place, name), "w") as file:
        file.write(str(value))


def enter(most: int) -> None:
    """Put this process under a bound of its own: itself and `most` more at once. Raises: OSError: refused."""
    place = folder()
    if place is not None:
        own = os.path.join(place, f"{_NAME}{os.getpid()}")
        with contextlib.suppress(FileExistsError):  # one of an earlier process of this number
            os.mkdir(own)
        _write(own, "pids.max", most + 1)
        _write(own, "cgroup.procs", 0)


def remove(pid: int) -> bool:
    """Remove the bound of a tool that has ended; whether it is gone, which it is not while a process of it dies."""
    place = folder()
    try:
        if place is not None:
            os.rmdir(os.path.join(place, f"{_NAME}{pid}"))
    except FileNotFoundError:
        return True  # a tool without one
    except OSError:
        return False
    return True


def sweep() -> None:
    """Remove what killed hosts left; bounds in use are not removed, the kernel sees to that. It fails nobody."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        for left in os.listdir(place):
            if left.startswith(_NAME):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(place, left))
