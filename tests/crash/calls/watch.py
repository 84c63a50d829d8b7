"""Counts the calls of an operation under names that come again, and does a deed at one of them.

What lives here: names, counting, the deed. What does not: where calls are seen (`python_calls`, `sqlite_calls`), and
which deeds fit which call (`deeds`).
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BEFORE, AFTER = "killed before", "killed after"
_UNIQUE = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{8}T\d{6}\.\d+Z")


class Call(NamedTuple):
    """One call of an operation: its name, and the how-many-th of this name it is, from 1."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name} #{self.number}"


class Watch:
    """The calls of this process on files below some folders, while it is told to count.

    Args: folders: others are not watched; calls on no file are. call, deed: what is done at which call, once.
    """

    def __init__(self, *folders: Path, call: Call | None = None, deed: str = "") -> None:
        self.folders = tuple(f"{folder}/" for folder in folders)
        self._call, self._deed = call, deed
        self._seen: Counter[str] = Counter()
        self._counting, self._lock = False, threading.Lock()
        self.calls: list[Call] = []
        self.done = False

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Calls are counted, and the deed may be done, meanwhile."""
        self._counting = True
        try:
            yield
        finally:
            self._counting = False

    def meet(self, verb: str, file: str | None = "") -> str:
        """A call is about to be made; the deed that belongs to it, or nothing. Dies here if it must.

        Args: file: its path, empty for a call on no file, None for a file that cannot be known.
        """
        if not self._counting or file is None:
            return ""
        role = self._role(file)
        if role is None:
            return ""
        with self._lock:
            name = f"{verb} {role}".strip()
            self._seen[name] += 1
            call = Call(name, self._seen[name])
            self.calls.append(call)
            if call != self._call or self.done:
                return ""
            self.done = True
        if self._deed == BEFORE:
            die()
        return self._deed

    def _role(self, file: str) -> str | None:
        if not file or file.startswith("="):  # a statement, by its own words
            return file[1:]
        for folder in self.folders:
            if f"{file}/".startswith(folder):
                below = file[len(folder) :].removesuffix(" (deleted)")
                if below.endswith((".jsonl", ".log")) and "/" not in below:
                    return None  # the bench's own
                return _UNIQUE.sub("*", below) or "the folder"
        return None


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def file_of(descriptor: int) -> str | None:
    """The path behind a descriptor of this process; None when it has none any more."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
