"""A lock is held by one, is free the moment its owner is dead, and never outlives it in a child."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perenne.errors import StoreFailed
from perenne.files.lock import Lock, add_text, holder

HOLDER = """
import sys
from pathlib import Path
from perenne.files.lock import Lock
lock = Lock.take(Path(sys.argv[1]), text="the other")
print("held" if lock else "refused", flush=True)
sys.stdin.read()
"""

FORKING_HOLDER = """
import os, sys
from pathlib import Path
from perenne.files.lock import Lock
lock = Lock.take(Path(sys.argv[1]))
if os.fork() == 0:
    assert not lock.held
    lock.release()
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""

SPAWNING_HOLDER = """
import os, subprocess, sys
from pathlib import Path
from perenne.files.lock import Lock
lock = Lock.take(Path(sys.argv[1]))
child = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
subprocess.run([sys.executable, "-c", child], close_fds=False)
"""


@contextmanager
def running(script: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with its first line still to be read; ended at the latest here."""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            assert process.stdin is not None
            process.stdin.close()  # a grandchild reads the same pipe, and ends with it


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def taken(path: Path, text: str = "") -> Lock:
    lock = Lock.take(path, text=text)
    assert lock is not None
    return lock


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """A second taker gets None at once, in the same process too, until the first releases."""
    path = tmp_path / "worker.lock"
    first = taken(path)
    assert first.held
    assert Lock.take(path) is None
    first.release()
    assert not first.held
    first.release()
    with taken(path) as second:
        assert second.held
        assert Lock.take(path) is None
    assert not second.held
    taken(path).release()


def test_file_is_private_and_stays(tmp_path: Path) -> None:
    """The file is 0600, is not inherited by programs, and is never removed."""
    path = tmp_path / "worker.lock"
    with taken(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        inode = path.stat().st_ino
        mine = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{fd}") == str(path)]
        assert len(mine) == 1
        assert not os.get_inheritable(mine[0])
    assert path.stat().st_ino == inode


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_mode_is_exact(tmp_path: Path, umask: int) -> None:
    """The file is 0600 whatever the umask, and one that was opened up to others is closed to them again."""
    before = os.umask(umask)
    try:
        taken(tmp_path / "worker.lock").release()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "worker.lock").stat().st_mode) == 0o600
    (tmp_path / "worker.lock").chmod(0o666)
    taken(tmp_path / "worker.lock").release()
    assert stat.S_IMODE((tmp_path / "worker.lock").stat().st_mode) == 0o600


def test_text_names_the_holder(tmp_path: Path) -> None:
    """The text of the newest holder replaces the one before, whole; a refused taker leaves it alone."""
    path = tmp_path / "worker.lock"
    assert holder(path) == ""
    with taken(path, "pid 1234 boot abcdef start 99"):
        assert holder(path) == "pid 1234 boot abcdef start 99"
    with taken(path, "pid 7"):
        assert Lock.take(path, text="never written") is None
        assert holder(path) == "pid 7"
    with taken(path):
        assert holder(path) == ""


def test_reading_the_holder_keeps_the_lock(tmp_path: Path) -> None:
    """Looking at the text from the holding process does not let the lock go."""
    path = tmp_path / "worker.lock"
    with taken(path, "me"):
        holder(path)
        with running(HOLDER, path) as other:
            assert line_of(other) == "refused"


def test_long_and_odd_texts_do_no_harm(tmp_path: Path) -> None:
    """Text is bounded, and bytes that are no text are shown, not raised."""
    path = tmp_path / "worker.lock"
    with taken(path, "é" * 10_000):
        assert len(holder(path).encode()) <= 4099
    path.write_bytes(b"\xff\xfe")
    assert holder(path) == "��"


def test_full_disk_does_not_keep_the_lock_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that cannot be written costs nobody the lock."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with taken(tmp_path / "worker.lock", "me") as lock:
        assert lock.held


def test_another_process_excludes_until_it_is_killed(tmp_path: Path) -> None:
    """A lock held by another process is refused, and is free as soon as that process is dead by SIGKILL."""
    path = tmp_path / "worker.lock"
    with running(HOLDER, path) as other:
        assert line_of(other) == "held"
        assert Lock.take(path) is None
        assert holder(path) == "the other"
        other.kill()
        assert other.wait(timeout=30) == -signal.SIGKILL
        with taken(path, "me"):
            assert holder(path) == "me"


def test_stopped_owner_keeps_its_lock(tmp_path: Path) -> None:
    """A stopped process is not dead: its lock is not given away."""
    path = tmp_path / "worker.lock"
    with running(HOLDER, path) as other:
        assert line_of(other) == "held"
        other.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, other.pid, os.WSTOPPED | os.WNOWAIT)
        assert Lock.take(path) is None


@pytest.mark.parametrize("script", [FORKING_HOLDER, SPAWNING_HOLDER], ids=["forked", "spawned"])
def test_living_child_does_not_keep_a_dead_owners_lock(tmp_path: Path, script: str) -> None:
    """A child that outlives its parent, forked or spawned, holds nothing; while the parent lives, the lock is held."""
    path = tmp_path / "worker.lock"
    with running(script, path) as owner:
        child = int(line_of(owner))
        assert Lock.take(path) is None
        owner.kill()
        owner.wait(timeout=30)
        os.kill(child, 0)
        taken(path).release()


def test_fork_leaves_the_parents_lock(tmp_path: Path) -> None:
    """A forked child that releases what it inherited, or exits, takes nothing from its parent."""
    path = tmp_path / "worker.lock"
    with taken(path) as lock:
        child = os.fork()
        if child == 0:
            lock.release()
            os._exit(0 if Lock.take(path) is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert lock.held
        with running(HOLDER, path) as other:
            assert line_of(other) == "refused"


@pytest.mark.parametrize("replace", [True, False], ids=["replaced", "deleted"])
def test_lock_on_a_deleted_file_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool) -> None:
    """When the file is removed between opening and locking, the lock is taken again on the file that stands there."""
    path = tmp_path / "worker.lock"
    flock = fcntl.flock
    turns: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        turns.append(descriptor)
        if len(turns) == 1:
            path.unlink()
            if replace:
                path.touch()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    lock = taken(path)
    monkeypatch.undo()
    assert len(turns) == 2
    with running(HOLDER, path) as other:
        assert line_of(other) == "refused"
    lock.release()


def test_file_replaced_for_ever_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that keeps deleting the lock file is reported, and does not hang the taker."""
    path = tmp_path / "worker.lock"
    monkeypatch.setattr(fcntl, "flock", lambda *_: path.unlink())
    with pytest.raises(StoreFailed, match=r"worker\.lock was replaced"):
        Lock.take(path)


def test_what_is_no_lock_file_is_refused(tmp_path: Path) -> None:
    """A folder, link or pipe at the path, or a missing folder, is one clear error naming the path."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "link", "pipe", "none/x"):
        with pytest.raises(StoreFailed, match=name):
            Lock.take(tmp_path / name)
        assert holder(tmp_path / name) == ""


def test_a_lock_that_is_given_belongs_to_the_other(tmp_path: Path) -> None:
    """The giver keeps nothing of it; it is free once the last copy of its descriptor is closed."""
    path = tmp_path / "a.lock"
    lock = Lock.take(path)
    assert lock is not None
    copies: list[int] = []
    lock.give(lambda descriptor: copies.append(os.dup(descriptor)))
    assert not lock.held
    assert Lock.take(path) is None
    lock.release()  # it has nothing to let go of
    assert Lock.take(path) is None
    os.close(copies[0])
    with Lock.take(path) or pytest.fail("it is free"):
        pass


def test_a_lock_that_could_not_be_given_is_free(tmp_path: Path) -> None:
    """Nobody is there who could take it over."""
    path = tmp_path / "a.lock"
    lock = Lock.take(path)
    assert lock is not None

    def refuse(descriptor: int) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        lock.give(refuse)
    with Lock.take(path) or pytest.fail("it is free"):
        pass


def test_what_is_added_stands_after_the_first_line_and_lets_nobody_in(tmp_path: Path) -> None:
    """The holder's name stays, what was added before goes, and the lock is held all the while."""
    path = tmp_path / "a.lock"
    with Lock.take(path, text="the holder\n") or pytest.fail("not taken"):
        for added in ("a long sentence about something\n", "short\n", ""):
            add_text(path, added)
            assert holder(path) == f"the holder\n{added}"
            assert Lock.take(path) is None
    add_text(tmp_path / "missing.lock", "nothing")
    assert not (tmp_path / "missing.lock").exists()
