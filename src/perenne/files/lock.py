"""Advisory locks that the kernel lets go when their owner dies, however it dies.

What lives here: taking, naming the holder, letting go. What does not: what a lock means, proof by age or pid.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat as modes
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from perenne.errors import StoreBusy, StoreFailed
from perenne.files import kernel_locks

_MOST_TEXT_BYTES = 4096
_MOST_REPLACEMENTS = 100

# Every descriptor of a lock, to be closed in a forked child: a child that kept one would keep the lock of a dead owner.
# Held by number and not weakly: a forgotten Lock stays locked until the process ends, and must still not leak.
_descriptors: set[int] = set()
_forking = threading.RLock()


class Lock:
    """An exclusive lock on a file, held until `release`, or until the process ends; never inherited, never unlinked."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self._process = os.getpid()

    @classmethod
    def take(cls, path: Path, *, text: str | None = "") -> Lock | None:
        """The lock, or None at once when somebody holds it; the file is created (0600) and stays for ever.

        Args: text: who holds it, for people only (pid, boot id, start time); replaces the text of the last holder,
            unless it is None.
        Raises:
            StoreFailed: the file cannot be opened or locked, or is not a regular file.
        """
        for _ in range(_MOST_REPLACEMENTS):
            descriptor = _opened(path)
            locked = _locked(descriptor, path)
            if not _is_at(descriptor, path):
                _close(descriptor)
                continue
            if not locked:
                _close(descriptor)
                return None
            if text is not None:
                _replace_text(descriptor, text)
            return cls(path, descriptor)
        raise StoreFailed(
            f"lock file {path} was replaced {_MOST_REPLACEMENTS} times while being locked; find what deletes it",
            path=str(path),
        )

    @property
    def held(self) -> bool:
        """Whether this object, in this process, still holds the lock."""
        return self._descriptor is not None and self._process == os.getpid()

    def release(self) -> None:
        """Let go; twice is once. In a forked child it does nothing: the lock is the parent's."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None and self._process == os.getpid():
            # Unlocked and not only closed: a process being spawned may hold a copy of the descriptor for a moment.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            _close(descriptor)

    def give(self, send: Callable[[int], object]) -> None:
        """Hand the lock over: `send` gives its descriptor to another process, and this one keeps no part of it.

        The lock is free once every process with a copy has closed it or ended, forked copies of that one included.
        """
        descriptor, self._descriptor = self._descriptor, None
        assert descriptor is not None, "it was released before"
        try:
            send(descriptor)
        finally:
            _close(descriptor)

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextlib.contextmanager
def waited_for(path: Path, whose: str, *, patience_s: float, text: str | None, its: str = "its") -> Iterator[None]:
    """Hold the lock meanwhile, once whoever has it lets go.

    Args: whose, its: the words of the refusal. text: as of `take`.
    Raises: StoreBusy: somebody held it for so long; names the process. StoreFailed.
    """
    patient_until = time.monotonic() + patience_s
    while (lock := Lock.take(path, text=text)) is None:
        if time.monotonic() > patient_until:
            held = kernel_locks.sentence(kernel_locks.holders(path))
            raise StoreBusy(
                f"{whose}: {held} held {its} lock for {patience_s:g} s; continue or end it, then try again",
                path=str(path),
                limit=patience_s,
            )
        time.sleep(0.002)  # reason: the kernel does not tell when a lock is let go
    with lock:
        yield


def holder(path: Path) -> str:
    """The text of the last holder, for people; empty when there is none. It proves nothing: only `Lock.take` does."""
    with contextlib.suppress(OSError):
        return text_in(path)
    return ""


def add_text(path: Path, text: str) -> None:
    """Put this after the first line of a lock file, in place of what stood there; only for who holds the lock."""
    with contextlib.suppress(OSError):  # for people only, like all that stands there
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            first = os.read(descriptor, _MOST_TEXT_BYTES).partition(b"\n")[0].decode("utf-8", "replace")
            _replace_text(descriptor, f"{first}\n{text}")
        finally:
            os.close(descriptor)


def text_in(path: Path) -> str:
    """What stands in a lock file; nothing in what is none. Raises OSError: it cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not modes.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, _MOST_TEXT_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    with _forking:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreFailed(
                f"lock file {path} cannot be opened: {error.strerror}; it must be a regular file this user may write",
                path=str(path),
            ) from error
        _descriptors.add(descriptor)
    if not modes.S_ISREG(os.fstat(descriptor).st_mode):
        _close(descriptor)
        raise StoreFailed(f"lock file {path} is not a regular file; remove what stands there", path=str(path))
    # The file of another user works as well, as its owner wants it; and so does one whose mode the disk cannot change.
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o600)
    return descriptor


def _locked(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        _close(descriptor)
        raise StoreFailed(
            f"lock file {path} cannot be locked: {error.strerror}; its file system must offer flock", path=str(path)
        ) from error
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path still names the file that was locked; a lock on a deleted file excludes nobody."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        _close(descriptor)
        raise StoreFailed(
            f"lock file {path} cannot be looked at: {error.strerror}; check the disk, then try again", path=str(path)
        ) from error
    return os.path.samestat(found, os.fstat(descriptor))


def _replace_text(descriptor: int, text: str) -> None:
    # A full disk must not keep a worker from its lock: it is the worker who makes room again.
    with contextlib.suppress(OSError):
        if os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode("utf-8", "replace")[:_MOST_TEXT_BYTES], 0)


def _close(descriptor: int) -> None:
    with _forking:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _forget_in_child() -> None:
    """Close, never unlock: unlocking here would take the lock from the parent."""
    for descriptor in _descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_forget_in_child)
