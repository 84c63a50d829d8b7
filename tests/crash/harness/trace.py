"""The durable calls of this process and the crash points it passes, thread by thread, in the order of their happening.

A durable call is one that a crash can fall before or after, with a difference that stays: commit, fsync, rename,
unlink, spawn, signal. Those of the tool host are seen where they are asked for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import apsw

from perenne import crashpoints
from perenne.runtime import toolorder, toolspawner

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
    (toolorder.Order, "packed"),  # asks the host to spawn a tool
    (toolspawner.Tool, "send_signal"),
)

DURABLE = frozenset({"!commit", *(f"!{name}" for _, name in _CALLS)})


@contextmanager
def recorded() -> Iterator[dict[int, list[str]]]:
    """What each thread does meanwhile: its durable calls as `!name`, the crash points it passes by their names."""
    threads: dict[int, list[str]] = {}

    def see(name: str) -> None:
        threads.setdefault(threading.get_ident(), []).append(name)

    def telling(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            answer = call(*given, **named)
            see(f"!{name}")  # a call that failed changed nothing
            return answer

        return run

    def hook(connection: apsw.Connection) -> None:
        connection.set_commit_hook(lambda: bool(see("!commit")))

    apsw.connection_hooks.append(hook)
    patches = [mock.patch.object(place, name, telling(name, getattr(place, name))) for place, name in _CALLS]
    crashpoints.observe(see)
    try:
        for patch in patches:
            patch.start()
        yield threads
    finally:
        crashpoints.observe(None)
        for patch in reversed(patches):
            patch.stop()
        apsw.connection_hooks.remove(hook)


def neighbours(threads: Iterable[Sequence[str]]) -> list[str]:
    """Each pair of durable calls of one thread with no crash point between them, and the points around them."""
    return [sentence for seen in threads for sentence in _neighbours(seen)]


def _neighbours(seen: Sequence[str]) -> Iterator[str]:
    for place, (one, other) in enumerate(pairwise(seen)):
        if one in DURABLE and other in DURABLE:
            before = next((name for name in reversed(seen[:place]) if name not in DURABLE), "the beginning")
            after = next((name for name in seen[place + 1 :] if name not in DURABLE), "the end")
            yield f"{one[1:]} and {other[1:]} between {before} and {after}"
