"""The tool host: a small program that is the parent of every outside tool which one worker process runs.

It has one thread, so Python may run between fork and exec (`toolbirth.py`). It signals and reaps, and kills a tool with
all that it started when its worker or whoever waits for it is gone. Deadlines and output live in `toolwatch.py`.
It runs isolated and imports only its neighbours.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from perenne.runtime import processbound, toolbirth, toolorder, toolstray
from perenne.runtime.toolbirth import Spare
from perenne.runtime.toolorder import ENDED, FAILED, SPAWNED, Order, tell

QUIET_MS = 5  # between two runs that follow each other at once, a fork ahead of time would only be in the way


class WorkerGone(Exception):
    """The process for which the host works has ended or has let it go."""


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
    """One tool: the channel of whoever waits for it (None: nobody any more)."""

    def __init__(self, channel: socket.socket, *, counted: bool) -> None:
        self.counted = counted  # whether its processes have a bound of their own
        self.channel: socket.socket | None = channel


class Host:
    """The loop: what to do when a descriptor becomes readable."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.runs: dict[int, Run] = {}
        self.bounds: set[int] = set()  # of tools that have ended, perhaps not yet removed
        self.adopts = toolstray.become_parent_of_orphans()
        self.children = watch_children()
        self.poll = select.poll()
        self.actions: dict[int, Callable[[], None]] = {}
        self.listen(control.fileno(), self.admit)
        self.listen(self.children, self.collect)
        toolbirth.prepare()
        gc.freeze()  # what stands now is not written to by a collection in a child
        self.spare: Spare | None = None
        self.patience_ms: int | None = QUIET_MS

    def listen(self, descriptor: int, action: Callable[[], None]) -> None:
        self.actions[descriptor] = action
        self.poll.register(descriptor, select.POLLIN)

    def close(self, channel: socket.socket) -> None:
        self.poll.unregister(channel)
        del self.actions[channel.fileno()]
        channel.close()

    def serve(self) -> None:
        """Work until the worker is gone, then end every tool that still lives and all that it started."""
        try:
            while True:
                happened = self.poll.poll(self.patience_ms)
                for descriptor, _ in happened:
                    if descriptor in self.actions:  # an action before it may have closed it
                        self.actions[descriptor]()
                self.patience_ms = QUIET_MS if happened and self.spare is None else None
                if not happened:
                    self.make_spare()
        finally:
            for pid in self.runs:
                signal_group(pid, signal.SIGKILL)
            if self.adopts:
                toolstray.end_all()

    def leave(self) -> NoReturn:
        raise WorkerGone

    def make_spare(self) -> None:
        """Fork the child that will be the next tool, while nobody waits; if that fails now, the next run tries."""
        with contextlib.suppress(OSError):
            self.spare = Spare()

    def admit(self) -> None:
        """Take one run from the control socket and make its tool."""
        byte, descriptors = toolorder.receive_descriptors(self.control)
        if not byte:
            self.leave()
        if len(descriptors) >= 3:  # fewer when the host has no descriptor left; the channel's end tells the worker
            self.start(socket.socket(fileno=descriptors.pop(0)), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def start(self, channel: socket.socket, streams: list[int]) -> None:
        """Give the order of one run to the spare child and tell its worker."""
        try:
            order = toolorder.unpacked(toolorder.receive(channel))
            pid = self.hand_over(order, channel, streams)
        except OSError as fault:
            tell(channel, FAILED, fault.errno or errno.EIO)
            channel.close()
            return
        channel.setblocking(False)
        run = self.runs[pid] = Run(channel, counted=order.cage.children > 0)
        self.listen(channel.fileno(), lambda: self.obey(pid, run, channel))
        tell(channel, SPAWNED, pid)

    def hand_over(self, order: Order, channel: socket.socket, streams: list[int]) -> int:
        """Give the order to the spare child, or fork where none waits; the number of the tool's process."""
        spare, self.spare = self.spare, None
        if spare is not None:
            with contextlib.suppress(OSError):  # it was killed while it waited
                spare.give(order, channel, streams)
                return spare.pid
        return toolbirth.fork(order, channel, streams)

    def obey(self, pid: int, run: Run, channel: socket.socket) -> None:
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
            signal_group(pid, number)

    def collect(self) -> None:
        """Reap the tools that have ended, and end what left their groups."""
        os.read(self.children, 4096)
        for pid, run in list(self.runs.items()):
            status = reap(pid)
            if status is None:
                continue
            del self.runs[pid]
            if run.counted:
                self.bounds.add(pid)
            if run.channel is not None:
                tell(run.channel, ENDED, status)
                self.close(run.channel)
        if self.spare is not None and os.waitpid(self.spare.pid, os.WNOHANG)[0]:
            self.spare = None  # killed by somebody else; the next quiet moment makes another one
        if self.adopts:
            toolstray.end_strays(self.runs, self.spare.pid if self.spare else None)
        self.bounds = {pid for pid in self.bounds if not processbound.remove(pid)}


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


def main(control_descriptor: int) -> None:
    """Serve the worker at the other end of the control socket."""
    control = socket.socket(fileno=control_descriptor)
    control.set_inheritable(False)
    forget_inherited_signals()
    os.chdir("/")
    with contextlib.suppress(WorkerGone):
        Host(control).serve()
