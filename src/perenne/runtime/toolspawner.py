"""How a worker process starts a tool: through its tool host, a child that is started together with the first tool.

What lives here: the life of the host, and the handle of one started tool. What the host does is in `toolhost.py`; how
long a tool may run and what is read from it, in `toolwatch.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from perenne.crashpoints import crash_point
from perenne.runtime import toolorder
from perenne.runtime.toolorder import Order

# The package is found by its place, after the standard library: no other code of the environment is loaded.
_START = "import sys; sys.path.append(sys.argv[1]); from perenne.runtime.toolhost import main; main(int(sys.argv[2]))"
_HOME = str(Path(__file__).parents[2])
HOST_ANSWERS_WITHIN_S = 5.0  # a run keeps it busy for about a millisecond; one that takes longer is stopped or sick


class Tool:
    """A tool that the host was asked to start: its output pipes and the channel to the host.

    Guarantees: closing it, or the death of this process, kills the tool's whole group.
    """

    def __init__(
        self, stdout: int, stderr: int, channel: socket.socket, held: contextlib.ExitStack, stdin: int = -1
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.stdin = stdin  # -1 for a tool without one
        self.channel = channel
        self._held = held
        self._received = b""

    def send_signal(self, number: int) -> None:
        """Signal the tool's group; nothing happens when the tool is reaped or the host gone, which `notes` tells."""
        with contextlib.suppress(OSError):
            self.channel.send(bytes([number]))

    def notes(self) -> Iterator[tuple[bytes, int]]:
        """What the host has just said, as kind and value (see `toolhost.py`); call it when the channel is readable.

        Raises:
            OSError: the host is gone.
        """
        received = self.channel.recv(256)
        if not received:
            raise ConnectionResetError(errno.ECONNRESET, "the tool host is gone")
        self._received += received
        whole_bytes = len(self._received) // toolorder.NOTE.size * toolorder.NOTE.size
        whole, self._received = self._received[:whole_bytes], self._received[whole_bytes:]
        return toolorder.NOTE.iter_unpack(whole)

    def close(self) -> None:
        """Let the tool go: its host kills what still runs of it."""
        self._held.close()

    def __enter__(self) -> Tool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HostProcess:
    """A running tool host, seen from the process that started it."""

    def __init__(self) -> None:
        self.control, far = socket.socketpair()
        self.control.settimeout(HOST_ANSWERS_WITHIN_S)
        with far:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, _HOME, str(far.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        """Let the host go; it kills what still runs."""
        self.control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(HOST_ANSWERS_WITHIN_S)

    def disown(self) -> None:
        """In a forked copy of this process: drop what belongs to the original, whose death the host could not see."""
        self.control.close()
        self.process.returncode = 0  # not a child of the copy, which must not wait for it


_lock = threading.Lock()
_host: HostProcess | None = None


def spawn(order: Order, *, talks: bool = False) -> Tool:
    """Ask the host to start a tool; the first note on its channel says how that went. Any thread may call it.

    Args: talks: the tool gets a standard input of its own, else an empty one.
    Raises:
        OSError: no descriptors are left, or no host could be started or reached.
    """
    with contextlib.ExitStack() as kept, contextlib.ExitStack() as lent:
        near, far = socket.socketpair()
        kept.enter_context(near)
        lent.enter_context(far)
        stdout, stdout_end = _pipe(kept, lent)
        stderr, stderr_end = _pipe(kept, lent)
        lent_ones, stdin = [far.fileno(), stdout_end, stderr_end], -1
        if talks:
            stdin_end, stdin = _input_pipe(kept, lent)
            lent_ones.append(stdin_end)
        near.settimeout(HOST_ANSWERS_WITHIN_S)
        socket.send_fds(_living_host().control, [b"r"], lent_ones)
        near.sendall(order.packed())
        crash_point("run.tool_requested")
        near.setblocking(False)
        return Tool(stdout, stderr, near, kept.pop_all(), stdin)


def _input_pipe(kept: contextlib.ExitStack, lent: contextlib.ExitStack) -> tuple[int, int]:
    readable, writable = os.pipe()
    lent.callback(os.close, readable)
    kept.callback(os.close, writable)
    os.set_blocking(writable, False)
    return readable, writable


def _pipe(kept: contextlib.ExitStack, lent: contextlib.ExitStack) -> tuple[int, int]:
    readable, writable = os.pipe()
    kept.callback(os.close, readable)
    lent.callback(os.close, writable)
    os.set_blocking(readable, False)
    return readable, writable


def _living_host() -> HostProcess:
    global _host
    with _lock:
        if _host is not None and _host.process.poll() is not None:
            _host.close()
            _host = None
        if _host is None:
            _host = HostProcess()
            crash_point("run.host_spawned")
        return _host


def let_go() -> None:
    """End the host, and with it every tool that still runs; the next tool starts another."""
    global _host
    with _lock:
        host, _host = _host, None
    if host is not None:
        host.close()


def _disown() -> None:
    global _host, _lock
    _lock = threading.Lock()  # another thread of the original may have held it
    if _host is not None:
        _host.disown()
        _host = None


atexit.register(let_go)
os.register_at_fork(after_in_child=_disown)
