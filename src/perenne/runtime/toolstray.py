"""Processes that a tool started and that left its group: the host becomes their parent when theirs ends, and ends them.

What lives here: who is a stray, and its end. Linux only; elsewhere, and if the host itself is killed, strays live on.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection

from perenne.runtime import kernelcalls


def become_parent_of_orphans() -> bool:
    """Whether orphaned descendants of this process become its children from now on."""
    try:
        kernelcalls.prctl(kernelcalls.PR_SET_CHILD_SUBREAPER, 1)
    except OSError:
        return False
    return True


def end_strays(tools: Collection[int], spare: int | None) -> None:
    """Kill and reap the children that are no tools and are not in the session of one that still runs.

    Their own children become ours when they end; the signal of that end brings the next look.
    """
    for pid in _children():
        if pid in tools or pid == spare:
            continue
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.getsid(pid) not in tools:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)


def end_all() -> None:
    """Kill and reap every child, until there is none."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
            return [int(pid) for pid in (file.readall() or b"").split()]
    except OSError:
        return []
