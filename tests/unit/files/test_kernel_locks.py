"""Who holds a file is read from the kernel's list, without touching the file or trusting what it cannot know."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perenne.files import kernel_locks
from perenne.files.kernel_locks import Holder
from perenne.files.lock import Lock

linux = pytest.mark.skipif(not kernel_locks.are_listed(), reason="this system does not show its locks")

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
if sys.argv[2] == "flock":
    fcntl.flock(file, fcntl.LOCK_EX)
else:
    fcntl.lockf(file, fcntl.LOCK_SH, 1, 120)
print("held", flush=True)
sys.stdin.readline()
"""


class Process:
    def __init__(self, path: Path, kind: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> int:
        assert self.process.stdout
        assert self.process.stdout.readline() == "held\n"
        return self.process.pid

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()


@linux
@pytest.mark.parametrize("kind", ["flock", "posix"])
def test_holder_is_named_until_it_dies(tmp_path: Path, kind: str) -> None:
    """A process that holds a lock of either sort is named with its command, and no more once it is dead."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with Process(path, kind) as pid:
        assert kernel_locks.holders(path) == [Holder(pid, Path(f"/proc/{pid}/comm").read_text().strip(), False)]
        assert str(pid) in kernel_locks.sentence(kernel_locks.holders(path))
    assert kernel_locks.holders(path) == []


@linux
def test_stopped_holder_is_said_to_be_stopped(tmp_path: Path) -> None:
    """A holder that is stopped is named with that word, for it will not let go by itself."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with Process(path, "posix") as pid:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        (found,) = kernel_locks.holders(path)
        assert (found.pid, found.stopped) == (pid, True)
        assert str(found).endswith(", stopped)")


@linux
def test_own_lock_is_told_as_our_own(tmp_path: Path) -> None:
    """A lock of this very process is seen too, and called by that name; asking does not drop it."""
    lock = Lock.take(tmp_path / "lock")
    assert lock
    with lock:
        assert kernel_locks.sentence(kernel_locks.holders(lock.path)) == f"this process ({os.getpid()})"
        assert lock.held
        assert Lock.take(lock.path) is None
    assert kernel_locks.holders(tmp_path / "lock") == []


def test_missing_file_has_no_holder(tmp_path: Path) -> None:
    """Nobody holds a file that is not there."""
    assert kernel_locks.holders(tmp_path / "missing") == []


def test_list_is_read_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting lines, leases, strange lines, other files and other devices are left out; every sort of lock counts."""
    path = tmp_path / "file"
    path.write_bytes(b"")
    found = path.stat()
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    text = "\n".join(
        [
            f"1: POSIX  ADVISORY  WRITE 999999901 {place} 120 120",
            f"1: -> POSIX  ADVISORY  WRITE 999999902 {place} 120 120",
            f"2: FLOCK  ADVISORY  WRITE 999999903 {place} 0 EOF",
            f"3: OFDLCK ADVISORY  READ 999999904 {place} 0 EOF",
            f"4: LEASE  ACTIVE    WRITE 999999905 {place} 0 EOF",
            f"5: POSIX  ADVISORY  WRITE 999999906 ff:ff:{found.st_ino} 0 EOF",
            f"6: POSIX  ADVISORY  WRITE 999999907 {place}1 0 EOF",
            f"7: POSIX  ADVISORY  WRITE -1 {place} 0 EOF",
            "nonsense",
            "",
        ]
    )
    (tmp_path / "locks").write_text(text)
    monkeypatch.setattr(kernel_locks, "LIST", tmp_path / "locks")
    pids = [holder.pid for holder in kernel_locks.holders(path)]
    assert pids == [999999901, 999999903, 999999904]
    assert kernel_locks.sentence(kernel_locks.holders(path)) == ", ".join(
        f"process {pid} (name unknown)" for pid in pids
    )


def test_other_device_counts_when_the_process_has_the_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the list names another device than stat, a process that has the file open is taken for the holder."""
    path = tmp_path / "file"
    path.write_bytes(b"")
    line = f"1: POSIX  ADVISORY  WRITE {os.getpid()} ff:ff:{path.stat().st_ino} 0 EOF\n"
    (tmp_path / "locks").write_text(line)
    monkeypatch.setattr(kernel_locks, "LIST", tmp_path / "locks")
    assert kernel_locks.holders(path) == []
    with open(path, "rb"):
        assert [holder.pid for holder in kernel_locks.holders(path)] == [os.getpid()]


def test_system_without_a_list_names_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where locks are not shown nobody is named, and that is said."""
    monkeypatch.setattr(kernel_locks, "LIST", tmp_path / "missing")
    assert not kernel_locks.are_listed()
    assert kernel_locks.holders(tmp_path) == []
    assert kernel_locks.sentence([]) == "another process"


def test_many_holders_are_three_and_others() -> None:
    """At most three processes are named."""
    assert kernel_locks.sentence([Holder(pid, "a b) c", False) for pid in range(10, 14)]).count("process") == 3
    assert kernel_locks.sentence([Holder(pid, "x", False) for pid in range(10, 14)]).endswith(" and others")
