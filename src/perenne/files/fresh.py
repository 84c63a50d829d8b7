"""Files that appear under a new name, whole or not at all, and never take the place of another one.

What lives here: writing aside as a stream, the name at the end, and reading back line by line. What does not: small
files that replace their older self (`atomic`), and what stands in the lines.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, StoreExists, StoreFailed
from perenne.files import atomic, regular

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_BUFFER_BYTES = 1 << 20


class Writing:
    """A file under way: what is written, and the digest of it so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size_bytes += len(data)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


@contextlib.contextmanager
def writing(path: Path, *, protocol: str) -> Iterator[Writing]:
    """Write `path` (0600) as a stream; it has its name, durably, once the block is left without an error.

    Args: protocol: whose crash points are passed.
    Raises: StoreExists: something has the name already. DiskLow, StoreFailed: nothing has the name. NotDurable.
    Guarantees: after a crash `path` is absent or whole; at most `<name>.stage-<32 hex>` is left beside it.
    """
    refuse_taken(path)
    staged = stage_of(path)
    with atomic.removed_on_failure(staged), atomic.explained(path, "written"):
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=_BUFFER_BYTES) as file:
            os.fchmod(descriptor, 0o600)
            yield Writing(file)
            file.flush()
            atomic.flush(descriptor)
        crash_point(f"{protocol}.staged")
        appear(staged, path, protocol=protocol)


def stage_of(path: Path) -> Path:
    """The name under which a file is made before it has its own: a new one each time."""
    return path.with_name(f"{path.name}.stage-{uuid.uuid4().hex}")


def refuse_taken(path: Path) -> None:
    """Raises: StoreExists: something has this name, be it a link to nowhere. StoreFailed, InvalidInput: it cannot."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise StoreFailed(
                f"{path} cannot be written: its folder is missing; make it first", path=str(path)
            ) from None
        return
    except ValueError as error:
        raise InvalidInput(f"path {str(path)!r} cannot name a file: {error}", path=str(path)) from error
    except OSError as error:
        raise StoreFailed(f"{path} cannot be written: {error.strerror}; choose another name", path=str(path)) from error
    raise StoreExists(f"{path} exists, and is never overwritten; choose another name", path=str(path))


def appear(staged: Path, path: Path, *, protocol: str) -> None:
    """Give a synced file its name, durably, unless something has it by now.

    Raises: StoreExists: the staged file stands, and the caller decides what becomes of it. StoreFailed, NotDurable.
    """
    with atomic.explained(path, "written"):
        try:
            os.link(staged, path)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            # No second names on this file system: looking first leaves a moment for another writer of this very name.
            refuse_taken(path)
            os.rename(staged, path)
        crash_point(f"{protocol}.renamed")
        atomic.sync_folder(path.parent)
        crash_point(f"{protocol}.folder_synced")
        with contextlib.suppress(OSError):  # the file stands by now, and a second name of it harms nobody
            os.unlink(staged)
        crash_point(f"{protocol}.leftover_removed")


def lines(path: Path, *, limit_bytes: int) -> Iterator[bytes]:
    """The lines of a regular file with their line ends, one at a time; the last one may lack its end.

    Args: limit_bytes: a longer line is cut there, and its rest comes as the next one.
    Raises: InvalidInput: missing, forbidden, or not a regular file; nothing else is opened or followed. StoreFailed.
    """
    with regular.readable(path), regular.opened(path, buffering=_BUFFER_BYTES) as file:
        while line := file.readline(limit_bytes):
            yield line
