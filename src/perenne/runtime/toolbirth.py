"""How a process becomes a tool: it waits for its order, gives up all that the tool shall not have, and executes it.

What lives here: the spare child of the tool host, forked before it is needed, so that nobody waits for a fork. Which
run it serves, and its end, are the host's (`toolhost.py`). There is one thread, so Python may run before exec.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from functools import cache
from typing import NoReturn

from perenne.runtime import bubblewrap, kernelcalls, landlock, processbound, seccomp
from perenne.runtime.seccomp import Filter
from perenne.runtime.toolorder import (
    ENVIRONMENT,
    FAILED,
    LIMITED,
    Cage,
    Order,
    identity_of,
    receive,
    receive_descriptors,
    tell,
    unpacked,
)

_PR_SET_SECUREBITS, _NO_ROOT_FOR_GOOD = 28, 0b11

# What programs are made of, for reading and running; a place that this machine lacks is passed over.
SYSTEM = (b"/usr", b"/bin", b"/sbin", b"/lib", b"/lib32", b"/lib64", b"/libx32")
_SETTINGS = (b"/etc/ld.so.cache", b"/etc/alternatives", b"/etc/localtime", b"/etc/perl")
_DEVICES = (b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom")


class Spare:
    """A child that is ready to become a tool, seen from the host."""

    def __init__(self) -> None:
        """Fork it. Raises: OSError: no process or descriptor is left."""
        ruleset = _system_only() if landlock_version() else None
        near, far = socket.socketpair()
        try:
            self.pid = _fork(lambda host: _await_order(host, far, ruleset))
        except OSError:
            near.close()
            raise
        finally:
            _close_all(far, ruleset)
        self._lane = near

    def give(self, order: Order, channel: socket.socket, streams: list[int]) -> None:
        """Hand it its order and the descriptors of its run. Raises: OSError: it is gone."""
        with self._lane:
            socket.send_fds(self._lane, [b"o"], [channel.fileno(), *streams])
            self._lane.sendall(order.packed())


def fork(order: Order, channel: socket.socket, streams: list[int]) -> int:
    """A child that becomes the ordered tool at once; its number. Raises: OSError."""
    ruleset = None
    try:
        if order.cage.level == "stage" and landlock_version():
            # Made on this side, where memory need not be copied first.
            ruleset = _system_only()
            _allow_own(ruleset, order)
        return _fork(lambda host: _serve(host, order, channel, streams, ruleset, whole=True))
    finally:
        _close_all(ruleset)


def _fork(live: Callable[[int], NoReturn]) -> int:
    host = os.getpid()
    pid = os.fork()
    if pid == 0:
        live(host)
    return pid


def _close_all(*ones: socket.socket | landlock.Ruleset | None) -> None:
    for one in ones:
        if one is not None:
            one.close()


def prepare() -> None:
    """In the host, before the first fork: what all spares share and none should work out again."""
    landlock_version()
    processbound.sweep()
    for files in (True, False):
        for children in (True, False):
            filter_for(files, children)


@cache
def landlock_version() -> int:
    return landlock.version()


@cache
def filter_for(files: bool, children: bool) -> Filter | None:
    """The filter for one way of running tools; None where there are none."""
    if not seccomp.known_here():
        return None
    found = landlock_version() if files else 0
    scoped, truncates = found >= landlock.SCOPES_FROM, found >= landlock.TRUNCATES_FROM
    return seccomp.compile_filter(files=files, children=children, scoped=scoped, truncates=truncates)


def _await_order(host: int, lane: socket.socket, ruleset: landlock.Ruleset | None) -> NoReturn:
    """The life of a spare: it ends as the tool, or here."""
    try:
        _bind_life_to(host)
        _, descriptors = receive_descriptors(lane)
        if len(descriptors) >= 3:  # fewer when the host has ended
            channel = socket.socket(fileno=descriptors[0])
            _serve(host, unpacked(receive(lane)), channel, descriptors[1:], ruleset, whole=False)
    finally:
        os._exit(127)


def _serve(
    host: int,
    order: Order,
    channel: socket.socket,
    streams: list[int],
    ruleset: landlock.Ruleset | None,
    *,
    whole: bool,
) -> NoReturn:
    """Become the ordered tool, or say why not; `whole`: nothing was prepared in this process, and the ruleset is."""
    try:
        if whole:
            _bind_life_to(host)
        elif ruleset is not None and order.cage.level == "stage":
            _allow_own(ruleset, order)
        _become(order, streams, ruleset)
    except BaseException as fault:
        tell(channel, FAILED, getattr(fault, "errno", None) or errno.EINVAL)
    finally:
        os._exit(127)


def _bind_life_to(host: int) -> None:
    """Lead a session and a group; die when the host dies, also if that has happened already."""
    os.setsid()
    if kernelcalls.find("prctl") is not None:
        kernelcalls.prctl(kernelcalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:
        os._exit(127)


def _system_only() -> landlock.Ruleset:
    ruleset = landlock.Ruleset(landlock_version())
    for path in SYSTEM:
        ruleset.allow(path, landlock.READ_AND_RUN, may_lack=True)
    for path in _SETTINGS:
        ruleset.allow(path, landlock.READ, may_lack=True)
    for path in _DEVICES:
        ruleset.allow(path, landlock.DEVICE, may_lack=True)
    return ruleset


def _allow_own(ruleset: landlock.Ruleset, order: Order) -> None:
    """What one tool may reach beside the system: itself, its stage, and what was asked for."""
    ruleset.allow(order.argv[0], landlock.EXECUTE | landlock.READ_FILE)
    for path in order.cage.reads:
        ruleset.allow(path, landlock.READ_AND_RUN)
    if order.cage.stage:
        ruleset.allow(order.cage.stage, landlock.WORK)


def _become(order: Order, streams: list[int], ruleset: landlock.Ruleset | None) -> NoReturn:
    """Turn this process into the tool; all descriptors but the three standard ones close on exec."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that would be inherited
        signal.signal(number, signal.SIG_DFL)
    for place, descriptor in zip((1, 2, 0), streams, strict=False):
        os.dup2(descriptor, place)
    os.chdir(order.cwd)
    _set_limit(resource.RLIMIT_CORE, 0)
    for kind, limit in zip(LIMITED, order.limits, strict=True):
        if kind != resource.RLIMIT_AS or sys.platform != "darwin":  # macOS refuses to set it
            _set_limit(kind, limit)
    if order.identity and identity_of(order.argv[0]) != order.identity:
        raise OSError(errno.ESTALE, "the program has changed")
    argv = order.argv
    if order.cage.wrapped:
        argv = bubblewrap.wrapped(order, _readable_filter(order.cage))
    elif order.cage.level != "none":
        _enter(order.cage, ruleset)
    os.execve(argv[0], argv, ENVIRONMENT)


def _readable_filter(cage: Cage) -> int:
    """A descriptor from which bubblewrap reads the filter for the tool; the bound on processes counts its own, too."""
    if cage.children:
        processbound.enter(cage.children + 2)
    found = seccomp.compile_filter(files=True, children=cage.children > 0, scoped=True, truncates=True, apart=True)
    descriptor = os.memfd_create("filter", 0)  # not closed on exec
    os.write(descriptor, found.steps)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _enter(cage: Cage, ruleset: landlock.Ruleset | None) -> None:
    """Give up what the cage takes; what cannot be given up is a fault, never passed over."""
    files = cage.level == "stage"
    found = filter_for(files, cage.children > 0)
    if found is None or (files and ruleset is None):
        raise OSError(errno.ENOSYS, "the confinement is not offered here")
    ready = found.of_this_process()
    if cage.children:
        processbound.enter(cage.children)
    if os.geteuid() == 0:
        kernelcalls.prctl(_PR_SET_SECUREBITS, _NO_ROOT_FOR_GOOD)  # exec would give root all its powers back
    kernelcalls.prctl(kernelcalls.PR_SET_NO_NEW_PRIVS, 1)
    if files and ruleset is not None:
        ruleset.enter()
    seccomp.enter(ready)


def _set_limit(kind: int, limit: int) -> None:
    """Lower a limit for good, but never ask for more than this process may have."""
    _, hard = resource.getrlimit(kind)
    most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    # One second above the soft limit the kernel kills a tool that survives SIGXCPU; if equal, it kills at once.
    above = limit + 1 if kind == resource.RLIMIT_CPU else limit
    resource.setrlimit(kind, (min(limit, most), min(above, most)))
