"""Who holds the worker's lock: one process, as long as it lives; and a moment of patience after it died."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perenne.errors import WorkerAlreadyRuns
from perenne.files.workspace import Workspace
from perenne.runtime import owner

HOLD = """
import os, sys, signal
from pathlib import Path
from perenne.files.workspace import Workspace
from perenne.runtime import owner
held = owner.take(Workspace(Path(sys.argv[1]), "id", "name", "app", runtime="."), alone=True).locks[0]
# Between fork and exec of a tool host a copy of the lock lives on in a process of its own; here it waits for its line.
copy = os.dup(held._descriptor)
script = "import os; os.write(1, b'r'); os.read(0, 1)"
import subprocess
subprocess.Popen([sys.executable, "-I", "-S", "-c", script], pass_fds=[copy] if sys.argv[2] == "leak" else [])
signal.pause()
"""


def take(lock: Path) -> owner.Holding:
    """Become the one worker of the workspace whose lock this is."""
    return owner.take(Workspace(lock.parent, "id", "name", "app", runtime="."), alone=True)


class Holder:
    """A process that holds the lock; with `leak`, a child of it holds a copy until `let_go`."""

    def __init__(self, lock: Path, how: str) -> None:
        words = [sys.executable, "-c", HOLD, str(lock.parent), how]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.read(1) == b"r"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "worker.lock"


@pytest.fixture
def leaking(lock: Path) -> Iterator[Holder]:
    holder = Holder(lock, "leak")
    yield holder
    holder.kill()
    holder.let_go()
    assert holder.process.stdout is not None
    holder.process.stdout.read()  # the end: the copy is gone too


@pytest.fixture
def holding(lock: Path) -> Iterator[Holder]:
    holder = Holder(lock, "hold")
    yield holder
    os.kill(holder.process.pid, signal.SIGCONT)
    holder.kill()
    holder.let_go()


def test_living_holder_is_named_at_once(lock: Path, holding: Holder) -> None:
    """A second worker is refused at once, and told whom it met."""
    began_s = time.monotonic()
    with pytest.raises(WorkerAlreadyRuns, match=rf"pid {holding.process.pid}\b"):
        take(lock)
    assert time.monotonic() - began_s < owner.PATIENCE_S / 2


def test_stopped_holder_lives(lock: Path, holding: Holder) -> None:
    """A holder that is stopped is alive: it is not waited for and not robbed."""
    os.kill(holding.process.pid, signal.SIGSTOP)
    os.waitpid(holding.process.pid, os.WUNTRACED)
    with pytest.raises(WorkerAlreadyRuns, match=rf"pid {holding.process.pid}\b"):
        take(lock)


def test_dying_holder_is_waited_for(lock: Path, leaking: Holder) -> None:
    """A killed worker's half-started child may hold a copy of the lock for a moment: the next worker waits for it."""
    leaking.kill()
    release = threading.Timer(0.1, leaking.let_go)
    release.start()
    taken = take(lock)
    release.join()
    assert taken.owner.pid == os.getpid()
    taken.release()


def test_patience_ends(lock: Path, leaking: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is never let go is not waited for without end, and the error says that the holder is dead."""
    monkeypatch.setattr(owner, "PATIENCE_S", 0.1)
    leaking.kill()
    with pytest.raises(WorkerAlreadyRuns, match=re.compile(r"dead", re.IGNORECASE)):
        take(lock)
