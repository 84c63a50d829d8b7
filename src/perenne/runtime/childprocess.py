"""One child, seen from its worker: how it is started, told, ended and buried.

What lives here: the process. What does not: what it is asked to do (`attendant`), and which child does it (`children`).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from perenne.core.kind import Kind
from perenne.crashpoints import crash_point
from perenne.errors import ChildFailed
from perenne.files.workspace import Workspace
from perenne.runtime import hearing, importable, orphans, proxy, toolhost
from perenne.runtime.child import Greeting
from perenne.runtime.link import Link
from perenne.runtime.owner import started
from perenne.runtime.wishes import Wishes

READY_WITHIN_S = 60.0  # it imports whatever the application imports
LEAVES_WITHIN_S = 2.0
DIES_WITHIN_S = 0.2
_LOST = "the child lost its connection to the worker: its handler closed it, or closed all descriptors"
_REPORT_BYTES = 64 * 1024
_SOURCE = str(Path(__file__).parents[2])


class Death(msgspec.Struct, frozen=True):
    """How a child ended: in words, the most memory it held since it was last measured, and its last report."""

    sentence: str
    peak_bytes: int | None
    report: str


class ChildProcess:
    """A process that serves one kind. Started by one thread for good; used by one slot at a time.

    `named` stands in the lock files of its attempts.
    """

    def __init__(self, kind: Kind, workspace: Workspace, owner: str) -> None:
        self.kind, self.serial, self.served = kind, 0, 0
        self.resident_bytes: int | None = None  # after its first attempt
        greeting = Greeting(list(sys.path), dict(os.environ), workspace, importable.reference(kind))
        with contextlib.ExitStack() as held, contextlib.ExitStack() as lent:
            near, far = socket.socketpair()
            held.enter_context(near)
            lent.enter_context(far)
            readable, self._wishes = _pipe(held)
            self.nudges, self._nudge = _pipe(held)
            self._report = held.enter_context(tempfile.TemporaryFile())
            os.set_blocking(readable, True)
            self.process = _spawn([far.fileno(), readable, self._report.fileno()])
            held.callback(self.process.wait)
            held.callback(self.process.kill)
            crash_point("run.child_spawned")
            self.pid = self.process.pid
            self.named = orphans.text_of(owner, self.pid, started(self.pid) or "unknown")
            self.death = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1
            os.close(readable)
            held.pop_all()
        self.link = Link(near)
        self._ready, self._buried, self._behind = False, False, False
        self._telling = threading.Lock()
        with contextlib.suppress(OSError):  # whoever waits for it to be ready is told
            self.link.send("serve", pickle.dumps(greeting))

    def await_ready(self) -> None:
        """Return once its modules are imported.

        Raises: ChildFailed: they are not, or it ended. It is to be ended then.
        """
        if self._ready:
            return
        if not select.select([self.link], [], [], READY_WITHIN_S)[0]:
            raise ChildFailed(f"the child of {self.kind} was not ready within {READY_WITHIN_S:g} s")
        try:
            word, values = self.link.receive()
        except (OSError, ValueError):
            raise ChildFailed(f"the child of {self.kind} ended before it was ready") from None
        if word != "ready":
            raise ChildFailed(f"the child of {self.kind} cannot import it: {values[0]}")
        self._ready = True

    def tell(self, wishes: Wishes) -> None:
        """Pass on what is asked of its attempt now, and wake the slot that attends to it; any thread may call it."""
        with self._telling:
            if self._buried:
                return
            self._say(wishes)
            with contextlib.suppress(BlockingIOError):
                os.write(self._nudge, b"!")

    def catch_up(self, wishes: Wishes) -> bool:
        """Say again what a child that stands still had no room to hear; whether it is still behind."""
        with self._telling:
            if self._behind and not self._buried:
                self._say(wishes)
            return self._behind

    def _say(self, wishes: Wishes) -> None:
        self._behind = False
        try:
            os.write(self._wishes, hearing.told(self.serial, wishes))
        except BlockingIOError:
            self._behind = True  # it was told thousands of things and read none
        except BrokenPipeError:
            pass  # it is gone, which its end tells

    def signal(self, number: int) -> None:
        """Signal its group, unless it was reaped, by whoever did that: until then its number is its own."""
        if self._is_reaped():
            return
        toolhost.signal_group(self.pid, number)
        crash_point("run.child_signaled")

    def end(self, *, lost: bool = False) -> Death:
        """Kill its group, wait for the end, and let go of everything.

        Args: lost: its connection is closed; then it may be about to die by itself, and how it does is worth a moment.
        """
        if lost:
            self._wait(DIES_WITHIN_S)
        alive = not self.is_over()
        if alive:
            self.signal(signal.SIGKILL)
        death = self._bury()
        return msgspec.structs.replace(death, sentence=_LOST) if lost and alive else death

    def leave(self) -> None:
        """Let it end by itself, as it does when it is left alone; kill what stays."""
        self.link.close()
        self._wait(LEAVES_WITHIN_S)
        self.end()

    def _wait(self, within_s: float) -> None:
        """Return when it has ended, or the time is over."""
        patient_until = time.monotonic() + within_s
        while not self.is_over() and (left_s := patient_until - time.monotonic()) > 0:
            if self.death >= 0:
                select.select([self.death], [], [], left_s)
            else:
                time.sleep(0.01)  # reason: this system gives no descriptor to wait on

    def is_over(self) -> bool:
        """Whether it has ended and is not buried yet."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _is_reaped(self) -> bool:
        """Whether the kernel or a handler in a thread has taken its status, as where SIGCHLD is ignored."""
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def _reap(self) -> tuple[str, int | None]:
        """How it ended, and the most memory it held; waits for the end."""
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.signal(signal.SIGKILL)  # what it left in its group
            _, status, used = os.wait4(self.pid, 0)
        except ChildProcessError:
            self.process.returncode = 0
            return "the child ended, and something else in the worker took its status", None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return _said(self.process.returncode), used.ru_maxrss * 1024

    def _bury(self) -> Death:
        sentence, peak_bytes = self._reap()
        report = os.pread(self._report.fileno(), _REPORT_BYTES, 0).decode("utf-8", "replace")
        with self._telling:
            self._buried = True
            for descriptor in (self._wishes, self.nudges, self._nudge, self.death):
                if descriptor >= 0:
                    os.close(descriptor)
        self.link.close()
        self._report.close()
        return Death(sentence, peak_bytes, report)


def _pipe(held: contextlib.ExitStack) -> tuple[int, int]:
    """Both ends, which do not block; closed with the stack."""
    ends = os.pipe()
    for end in ends:
        held.callback(os.close, end)
        os.set_blocking(end, False)
    return ends


def _spawn(given: list[int]) -> subprocess.Popen[bytes]:
    words = [str(number) for number in (os.getpid(), *given)]
    path = os.pathsep.join([_SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "perenne.runtime.child", *words],
        stdin=subprocess.DEVNULL,
        pass_fds=given,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )


def _said(code: int) -> str:
    if code == proxy.GONE:
        return _LOST
    if code >= 0:
        return f"the child exited with status {code} while its handler ran"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the child was ended by {name}"
