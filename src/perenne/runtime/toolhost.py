"""The tool host: a small program that is the parent of every outside tool which one worker process runs.

It has one thread, so Python may run between fork and exec: there the limits are set. It forks, signals and reaps, and
kills a tool's group when its worker or whoever waits for it is gone. Deadlines and output live in `toolwatch.py`.
It runs isolated and imports nothing of the package; the package imports the messages from here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}

# Worker to host, on the control socket: one byte with three descriptors, the run's channel and its output pipes.
# Worker to host, on the channel: the request, later one byte for each signal that the group shall get.
# Host to worker, on the channel: notes. The end of the channel ends the run.
LENGTH = struct.Struct("=I")
NOTE = struct.Struct("=ci")
SPAWNED, FAILED, ENDED = b"s", b"f", b"e"  # with the process number, the errno, the wait status

LIMITED = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS)
PR_SET_PDEATHSIG = 1


class WorkerGone(Exception):
    """The process for which the host works has ended or has let it go."""


def pack_request(argv: Sequence[bytes], cwd: bytes, limits: Sequence[int]) -> bytes:
    """A request: working folder, limits in the order of LIMITED, then the arguments; no part may hold a NUL."""
    body = b"\0".join([cwd, *(b"%d" % limit for limit in limits), *argv])
    return LENGTH.pack(len(body)) + body


def receive_request(channel: socket.socket) -> tuple[list[bytes], bytes, list[int]]:
    """Arguments, working folder and limits; the sender is already writing, so this waits for no one else."""
    (length,) = LENGTH.unpack(_receive(channel, LENGTH.size))
    cwd, *rest = _receive(channel, length).split(b"\0")
    return rest[len(LIMITED) :], cwd, [int(limit) for limit in rest[: len(LIMITED)]]


def _receive(channel: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = channel.recv(length - len(data))
        if not piece:
            raise ConnectionResetError(errno.ECONNRESET, "the request was cut off")
        data += piece
    return data


def tell(channel: socket.socket, kind: bytes, value: int) -> None:
    """Send a note; whoever does not listen any more misses it."""
    with contextlib.suppress(OSError):
        channel.send(NOTE.pack(kind, value))


def signal_group(pid: int, number: int) -> None:
    """Signal the group of a tool that is not reaped yet: until then nobody else can have its number."""
    with contextlib.suppress(PermissionError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)  # between fork and setsid there is no group yet


def reap(pid: int) -> int | None:
    """The wait status of a tool that has ended, after killing what is left of its group; None while it runs."""
    if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on; without it leftovers of the group stay
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        signal_group(pid, signal.SIGKILL)
    ended, status = os.waitpid(pid, os.WNOHANG)
    return status if ended else None


class Run:
    """One tool and the channel of whoever waits for it (None: nobody any more)."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel: socket.socket | None = channel


class Host:
    """The loop: what to do when a descriptor becomes readable."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.runs: list[Run] = []
        self.children = watch_children()
        self.prctl = find_prctl()
        self.poll = select.poll()
        self.actions: dict[int, Callable[[], None]] = {}
        self.listen(control.fileno(), self.admit)
        self.listen(self.children, self.collect)

    def listen(self, descriptor: int, action: Callable[[], None]) -> None:
        self.actions[descriptor] = action
        self.poll.register(descriptor, select.POLLIN)

    def close(self, channel: socket.socket) -> None:
        self.poll.unregister(channel)
        del self.actions[channel.fileno()]
        channel.close()

    def serve(self) -> None:
        """Work until the worker is gone, then end every group that still lives."""
        try:
            while True:
                for descriptor, _ in self.poll.poll():
                    if descriptor in self.actions:  # an action before it may have closed it
                        self.actions[descriptor]()
        finally:
            for run in self.runs:
                signal_group(run.pid, signal.SIGKILL)

    def leave(self) -> NoReturn:
        raise WorkerGone

    def admit(self) -> None:
        """Take one run from the control socket."""
        byte, descriptors, _, _ = socket.recv_fds(self.control, 1, 3)
        if not byte:
            self.leave()
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if len(descriptors) == 3:  # fewer when the host has no descriptor left; the channel's end tells the worker
            channel, stdout, stderr = socket.socket(fileno=descriptors.pop(0)), *descriptors
            self.start(channel, stdout, stderr)
        for descriptor in descriptors:
            os.close(descriptor)

    def start(self, channel: socket.socket, stdout: int, stderr: int) -> None:
        """Fork the tool of one run and tell its worker."""
        try:
            argv, cwd, limits = receive_request(channel)
            host = os.getpid()
            pid = os.fork()
        except OSError as fault:
            tell(channel, FAILED, fault.errno or errno.EIO)
            channel.close()
            return
        if pid == 0:
            try:
                self.bind_life_to(host)
                become(argv, cwd, limits, stdout, stderr)
            except BaseException as fault:
                tell(channel, FAILED, getattr(fault, "errno", None) or errno.EINVAL)
            os._exit(127)
        channel.setblocking(False)
        run = Run(pid, channel)
        self.runs.append(run)
        self.listen(channel.fileno(), lambda: self.obey(run, channel))
        tell(channel, SPAWNED, pid)

    def bind_life_to(self, host: int) -> None:
        """In the child: die when the host dies, also if that has happened already."""
        os.setsid()
        if self.prctl is not None and self.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(errno.EINVAL, "the death signal was refused")
        if os.getppid() != host:
            os._exit(127)

    def obey(self, run: Run, channel: socket.socket) -> None:
        """Pass signals on; when nobody waits any more, kill."""
        try:
            orders = channel.recv(64)
        except BlockingIOError:
            return
        except ConnectionError:
            orders = b""
        if not orders:
            run.channel = None
            self.close(channel)
        for number in orders or [signal.SIGKILL]:
            signal_group(run.pid, number)

    def collect(self) -> None:
        """Reap the tools that have ended."""
        os.read(self.children, 4096)
        for run in list(self.runs):
            status = reap(run.pid)
            if status is None:
                continue
            self.runs.remove(run)
            if run.channel is not None:
                tell(run.channel, ENDED, status)
                self.close(run.channel)


def become(argv: list[bytes], cwd: bytes, limits: list[int], stdout: int, stderr: int) -> NoReturn:
    """Turn this process into the tool; all descriptors but the three standard ones close on exec."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that would be inherited
        signal.signal(number, signal.SIG_DFL)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.chdir(cwd)
    set_limit(resource.RLIMIT_CORE, 0)
    for kind, limit in zip(LIMITED, limits, strict=True):
        if kind != resource.RLIMIT_AS or sys.platform != "darwin":  # macOS refuses to set it
            set_limit(kind, limit)
    os.execve(argv[0], argv, ENVIRONMENT)


def set_limit(kind: int, limit: int) -> None:
    """Lower a limit for good, but never ask for more than this process may have."""
    _, hard = resource.getrlimit(kind)
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    # One second above the soft limit the kernel kills a tool that survives SIGXCPU; if equal, it kills at once.
    above = limit + 1 if kind == resource.RLIMIT_CPU else limit
    resource.setrlimit(kind, (min(limit, most), min(above, most)))


def find_prctl() -> Callable[..., int] | None:
    """A system call that Python lacks; without it tools outlive a host that was killed, but never its worker."""
    try:
        import ctypes

        call: Callable[..., int] = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return call


def watch_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable


def forget_inherited_signals() -> None:
    """Undo what the worker blocks or ignores, for this process and so for the tools."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def main() -> None:
    """Serve the worker at the other end of the control socket that the command line names."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    forget_inherited_signals()
    os.chdir("/")
    with contextlib.suppress(WorkerGone):
        Host(control).serve()


if __name__ == "__main__":
    main()
