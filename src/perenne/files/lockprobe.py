"""Two processes try a folder: locks, shared memory, a rename, the sync of the folder.

What lives here: the trial and the sentence on what failed. Whether a folder is tried, and what a good trial is worth,
is decided in `ground.py`: it proves what does not work, and never that a disk is this machine's own.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WITHIN_S = 20.0  # an answer takes 30 ms; a disk that needs longer for it is no place for a store
_BYTES = 4096

# Run alone: nothing of the environment is loaded. Says which locks are refused and what it sees; writes its own mark.
OTHER = """
import fcntl, mmap, sys
def refused(lock, file):
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
    return 0
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 4096) as shared:
    print(refused(fcntl.lockf, file), refused(fcntl.flock, file), shared[0])
    shared[1] = 2
"""


def fault(folder: Path) -> str | None:
    """What does not work in an existing folder, as a part of a sentence; None when all does. Leaves no file."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="perenne-probe-", dir=folder)
        try:
            return _tried(descriptor, name)
        finally:
            os.close(descriptor)
            for left in (name, f"{name}-renamed"):
                Path(left).unlink(missing_ok=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"a trial of its locks failed ({error})"


def _tried(descriptor: int, name: str) -> str | None:
    os.ftruncate(descriptor, _BYTES)
    with mmap.mmap(descriptor, _BYTES) as shared:
        shared[0] = 1
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        posix_holds, flock_holds, seen = _other(name)
        if not (posix_holds and flock_holds):
            return "a lock of one process does not keep another one out"
        if (seen, shared[1]) != (1, 2):
            return "two processes do not see each other's writes to shared memory"
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    fcntl.lockf(descriptor, fcntl.LOCK_UN)
    os.rename(name, f"{name}-renamed")
    _sync(Path(name).parent)
    if _other(f"{name}-renamed")[:2] != (0, 0):
        return "a lock that was given back still keeps another process out"
    return None


def _other(name: str) -> tuple[int, int, int]:
    """What a second process finds: whether each lock is refused, and the first byte of shared memory."""
    argv = [sys.executable, "-I", "-S", "-c", OTHER, name]
    answer = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=WITHIN_S, check=True).stdout
    posix_holds, flock_holds, seen = map(int, answer.split())
    return posix_holds, flock_holds, seen


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
