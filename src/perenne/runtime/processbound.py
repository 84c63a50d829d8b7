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
from pathlib import Path

_MOUNTS = Path("/sys/fs/cgroup")
_NAME = "perenne-"


@cache
def folder() -> Path | None:
    """Where a cgroup with a bound can be made; found by making one."""
    for parent in _candidates():
        trial = parent / f"{_NAME}trial-{os.getpid()}"
        with contextlib.suppress(OSError):
            trial.mkdir()
            try:
                # In version 2 the files are there only where the parent gives the controller on.
                (trial / "pids.max").write_text("1")
                return parent
            finally:
                trial.rmdir()
    return None


def _candidates() -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            if "pids" in controllers.split(","):
                yield _MOUNTS / "pids" / own.lstrip("/")
            elif not controllers:
                place = _MOUNTS / own.lstrip("/")
                yield from (place, place.parent) if own != "/" else (place,)


def enter(most: int) -> None:
    """Put this process under a bound of its own: itself and `most` more at once. Raises: OSError: refused."""
    place = folder()
    if place is not None:
        own = place / f"{_NAME}{os.getpid()}"
        own.mkdir(exist_ok=True)  # one of an earlier process of this number
        (own / "pids.max").write_text(str(most + 1))
        (own / "cgroup.procs").write_text("0")


def remove(pid: int) -> bool:
    """Remove the bound of a tool that has ended; whether it is gone, which it is not while a process of it dies."""
    place = folder()
    try:
        if place is not None:
            (place / f"{_NAME}{pid}").rmdir()
    except FileNotFoundError:
        return True  # the usual case: it had none
    except OSError:
        return False
    return True


def sweep() -> None:
    """Remove what killed hosts left; bounds in use are not removed, the kernel sees to that."""
    place = folder()
    if place is not None:
        with contextlib.suppress(OSError):
            for left in place.glob(f"{_NAME}*"):
                with contextlib.suppress(OSError):
                    left.rmdir()
