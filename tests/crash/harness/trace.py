"""The durable calls of this process and the crash points it passes, in the order in which they happened.

A durable call is one that a crash can fall before or after, with a difference that stays: commit, fsync, rename,
unlink, spawn, signal. Those of the tool host are seen where they are asked for.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import apsw

from perenne import crashpoints
from perenne.runtime import toolhost, toolspawner

_CALLS: tuple[tuple[Any, str], ...] = (
    (os, "fsync"),
    (os, "fdatasync"),
    (os, "rename"),
    (os, "replace"),
    (os, "unlink"),
    (os, "remove"),
    (os, "link"),
    (os, "symlink"),
    (os, "kill"),
    (os, "killpg"),
    (os, "fork"),
    (signal, "pidfd_send_signal"),
    (subprocess, "Popen"),
    (toolhost, "pack_request"),  # asks the host to spawn a tool
    (toolspawner.Tool, "send_signal"),
)


@contextmanager
def recorded(seen: Callable[[str], object]) -> Iterator[None]:
    """Tell `seen` each durable call as `!name`, and each crash point by its name, from whatever thread."""

    def telling(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            seen(f"!{name}")
            return call(*given, **named)

        return run

    def hook(connection: apsw.Connection) -> None:
        connection.set_commit_hook(lambda: bool(seen("!commit")))

    apsw.connection_hooks.append(hook)
    patches = [mock.patch.object(place, name, telling(name, getattr(place, name))) for place, name in _CALLS]
    crashpoints.observe(seen)
    try:
        for patch in patches:
            patch.start()
        yield
    finally:
        crashpoints.observe(None)
        for patch in reversed(patches):
            patch.stop()
        apsw.connection_hooks.remove(hook)


def neighbours(seen: list[str]) -> list[str]:
    """Each pair of durable calls with no crash point between them, with the point before and after; none is right."""
    found = []
    for place, (one, other) in enumerate(pairwise(seen)):
        if one.startswith("!") and other.startswith("!"):
            before = next((name for name in reversed(seen[:place]) if not name.startswith("!")), "the beginning")
            after = next((name for name in seen[place + 1 :] if not name.startswith("!")), "the end")
            found.append(f"{one[1:]} and {other[1:]} between {before} and {after}")
    return found
