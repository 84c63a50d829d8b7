"""Bubblewrap, for kernels without Landlock: the tool sees a file system, a network and processes of its own.

What lives here: how it is called, and whether it works here. When it is used: `confine.py`. What differs from Landlock:
ten milliseconds a start, no time to tidy up after SIGTERM, and a tool that a signal ended has exit code 128 and more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from perenne.runtime.toolorder import ENVIRONMENT, Order

PROGRAM = b"/usr/bin/bwrap"
_TRIAL_S = 5.0
_ALONE = (b"--unshare-all", b"--die-with-parent", b"--cap-drop", b"ALL", b"--dev", b"/dev")
_SYSTEM = (b"/usr", b"/bin", b"/sbin", b"/lib", b"/lib32", b"/lib64", b"/libx32")
_SETTINGS = (b"/etc/ld.so.cache", b"/etc/alternatives", b"/etc/localtime", b"/etc/perl")


def wrapped(order: Order, filter_descriptor: int) -> list[bytes]:
    """The call that runs the ordered tool inside; the filter of system calls is read from the descriptor."""
    return [PROGRAM, *_outfit(order), b"--seccomp", b"%d" % filter_descriptor, b"--", *order.argv]


def _outfit(order: Order) -> Iterator[bytes]:
    yield from _ALONE
    for path in (*_SYSTEM, *_SETTINGS):
        yield from (b"--ro-bind-try", path, path)
    for path in (order.argv[0], *order.cage.reads):
        yield from (b"--ro-bind", path, path)
    if order.cage.stage:
        yield from (b"--bind", order.cage.stage, order.cage.stage)
    elif order.cwd != b"/":
        yield from (b"--dir", order.cwd)
    yield from (b"--chdir", order.cwd)


def works() -> bool:
    """Whether it is installed and may do here what it must; asked by one trial."""
    argv = [PROGRAM, *_ALONE, b"--ro-bind", b"/", b"/", b"--", b"/bin/true"]
    if not os.access(PROGRAM, os.X_OK):
        return False
    import subprocess  # here, because the tool host shall stay small: what it holds is copied for each tool

    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT, timeout=_TRIAL_S)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
