"""Processes to kill: forked from the test, watched by their descriptors, and nobody left behind.

The test becomes the reaper of all its descendants, so that a process that outlives its parent cannot hide.
"""

from __future__ import annotations

import ctypes
import io
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from perenne import crashpoints

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
LIMIT_S = 30.0

_prctl = ctypes.CDLL(None, use_errno=True).prctl
_living: set[Victim] = set()
killed: Counter[str] = Counter()  # how many processes died in this run, by the crash point they were armed with


class Victim:
    """One child process of the test."""

    def __init__(self, pid: int, name: str, point: str | None = None) -> None:
        self.pid, self.name, self.point = pid, name, point
        self.status: int | None = None
        self.was_killed = False  # by SIGKILL, and not because its time was over
        self._descriptor = os.pidfd_open(pid)
        _living.add(self)

    def is_over(self, within_s: float = 0.0) -> bool:
        """Whether the process has ended, after waiting for that at most so long."""
        if self.status is None and select.select([self._descriptor], [], [], within_s)[0]:
            self._note(os.waitpid(self.pid, 0)[1])
        return self.status is not None

    def _note(self, status: int) -> None:
        self.status = status
        self.was_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        os.close(self._descriptor)
        _living.discard(self)
        if self.was_killed:
            killed[self.point or "at random"] += 1

    def is_stopped(self) -> bool:
        """Wait until the process is stopped; false when it ended instead."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        self._note(status)
        return False

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when the process is over, since its number cannot be another's yet."""
        if self.status is None:
            os.kill(self.pid, number)

    def kill(self) -> bool:
        """End it by SIGKILL; true when that is what ended it."""
        self.signal(signal.SIGKILL)
        assert self.is_over(LIMIT_S), f"{self.name} survived SIGKILL"
        return self.was_killed

    def end(self, within_s: float = LIMIT_S) -> int | None:
        """The exit code once it ended, negative for a signal; None when it was killed because the time was over."""
        if not self.is_over(within_s):
            self.kill()
            self.was_killed = False
            killed[self.point or "at random"] -= 1
            return None
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)


def fork(name: str, work: Callable[[], object], log: Path, environment: Mapping[str, str] | None = None) -> Victim:
    """Run some work in a child; it exits as `sys.exit` says, with 0 when the work returns, 1 when it raises."""
    pid = os.fork()
    if pid:
        return Victim(pid, name, (environment or {}).get(crashpoints.VARIABLE, "").partition(":")[0])
    code = 1
    try:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # a killed test leaves no victim behind
        _own_outputs(log)
        os.environ.update(environment or {})
        work()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _own_outputs(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    # Line by line, since a child that is killed flushes nothing; and not to where pytest redirected the parent's.
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), line_buffering=True) for number in (1, 2)
    )


def become_reaper() -> None:
    """From now on an orphaned descendant becomes a child of this process."""
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot become the reaper of its descendants")


def kill_all() -> None:
    """End every victim that is still alive, as a test does that failed on the way."""
    for victim in tuple(_living):
        victim.kill()


def kill_descendants() -> None:
    """End whatever is below this process, after it was named as a survivor."""
    while children := _children(os.getpid()):
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def survivors(within_s: float = 10.0) -> list[str]:
    """Command lines of the descendants that are still alive after so long; every victim was waited for before."""
    deadline = time.monotonic() + within_s
    while _reap_all():
        for pid in _children(os.getpid()):
            with os.fdopen(os.pidfd_open(pid), "rb") as descriptor:
                if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    return descendants()
    return []


def descendants(pid: int | None = None) -> list[str]:
    """Command lines of all processes below this one."""
    children = _children(pid or os.getpid())
    return [line for child in children for line in (_command_of(child), *descendants(child))]


def _reap_all() -> bool:
    """Whether children are left after all that have ended were reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []  # it is gone


def _command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return f"{pid}: {b' '.join(words).decode(errors='replace')[:200]}"
    except (FileNotFoundError, ProcessLookupError):
        return f"{pid}: gone"
