"""A small disk of its own for one scene: a tmpfs in a private mount namespace, seen by nobody else and gone after it.

What lives here: making it, filling it, giving space back. What does not: the stage that stands on it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scenario_stage import Stage

_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x20000, 0x4000, 1 << 18


class Disk:
    """The disk, and the stage that stands on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stage = Stage(folder / "stage")
        # Its gates and marks stay writable when the disk is full: they are the test's hands, not the engine's.
        self.stage.marks = folder.parent / "marks"
        self.stage.marks.mkdir()
        self._filler = folder / "filler"

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all the space but so much."""
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while (left := self.free_bytes - leave_bytes) > 0:
                file.write(bytes(min(left, 1 << 20)))

    def give_back(self) -> None:
        self._filler.unlink()


def on_a_small_disk(folder: Path, size_bytes: int, scene: Callable[[Disk], Any]) -> Any:
    """What a scene on a disk of so many bytes answers; it plays in a forked child, and its failures are raised here."""
    reason = _refusal()
    if reason:
        pytest.skip(f"NOT RUN: a disk of its own needs {reason}")
    folder.mkdir()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _mount(folder / "disk", size_bytes)
            said = {"answer": scene(Disk(folder / "disk"))}
        except BaseException:
            said = {"failure": traceback.format_exc()}
        os.write(writable, json.dumps(said).encode())
        os._exit(0)
    os.close(writable)
    try:
        with os.fdopen(readable, "rb") as pipe:
            said = json.loads(pipe.read() or '{"failure": "the scene died"}')
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert "failure" not in said, said["failure"]
    return said["answer"]


def _refusal() -> str | None:
    if os.geteuid() != 0:
        return "root"
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0 else 1)
    return "a private mount namespace" if os.waitpid(child, 0)[1] else None


def _mount(place: Path, size_bytes: int) -> None:
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    size = f"size={size_bytes},mode=700".encode()
    for done in (
        lambda: libc.unshare(_CLONE_NEWNS),
        lambda: libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None),
        lambda: libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, size),
    ):
        if done() != 0:
            raise OSError(ctypes.get_errno(), "the disk could not be made")
