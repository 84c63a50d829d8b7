"""The bytes of artefacts: files under their SHA-256 that are linked once, never changed, and removed when unnamed.

What lives here: staging, proving, linking, reading and removing. What does not: names, rows and bounds of jobs, and who
holds the right. Whoever links, names or removes holds the lock of the folder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import uuid
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, StoreFailed
from perenne.files import atomic, fresh, regular
from perenne.files.lock import waited_for

PATIENCE_S = 5.0
PIECE_BYTES = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
_STAGED = re.compile(r"\.artefact-[0-9a-f]{32}")
Content = bytes | bytearray | memoryview | os.PathLike[str] | str | BinaryIO


@dataclass(frozen=True)
class Staged:
    """A whole, synced file that has no lasting name yet."""

    path: Path
    size_bytes: int
    digest: str


def stage(folder: Path, content: Content, check: Callable[[int], None]) -> Staged:
    """Write the content into a new file of the folder, and sync it.

    Args: content: bytes, the path of a regular file, or what `read(size)` gives as bytes, from where it stands.
    check: told the size, as declared before anything is read, then as it grows; raises to refuse it.
    Raises: InvalidInput; DiskLow, StoreFailed: nothing is left; and whatever `check` or `read` raises.
    """
    path = folder / f".artefact-{uuid.uuid4().hex}"
    with contextlib.closing(_pieces(content, check)) as pieces:
        first = next(pieces)  # what is refused leaves no trace
        with atomic.explained(path, "written"), atomic.removed_on_failure(path):
            return _written(path, first, pieces)


def _written(path: Path, first: bytes, pieces: Iterator[bytes]) -> Staged:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    digest, size_bytes = hashlib.sha256(first), len(first)
    with open(descriptor, "wb", buffering=0) as file:
        _write(file, first)
        for piece in pieces:
            digest.update(piece)
            size_bytes += len(piece)
            _write(file, piece)
        atomic.flush(descriptor)
    crash_point("artefact.staged")
    return Staged(path, size_bytes, digest.hexdigest())


def _write(file: BinaryIO, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[file.write(rest) :]


def _pieces(content: Content, check: Callable[[int], None]) -> Generator[bytes, None, None]:
    """At least one piece, which may be empty."""
    if isinstance(content, bytes | bytearray | memoryview):
        data = bytes(content) if not isinstance(content, memoryview) else _whole(content, check)
        check(len(data))
        yield data
    elif isinstance(content, str | os.PathLike):
        with regular.opened(Path(content)) as file:
            check(os.fstat(file.fileno()).st_size)
            yield from _read(file, check)
    elif callable(getattr(content, "read", None)):
        yield from _read(content, check)
    else:
        raise InvalidInput(
            f"content: {type(content).__name__} is none; give bytes, a path, or a file opened with 'rb'",
            field="content",
        )


def _whole(content: memoryview, check: Callable[[int], None]) -> bytes:
    check(content.nbytes)
    return content.tobytes()


def _read(file: BinaryIO, check: Callable[[int], None]) -> Iterator[bytes]:
    size_bytes = 0
    piece: object = b""
    while True:
        piece = file.read(PIECE_BYTES)
        if not isinstance(piece, bytes):
            raise InvalidInput("content: its read gives no bytes; open the file with 'rb'", field="content")
        size_bytes += len(piece)
        check(size_bytes)
        yield piece
        if not piece:
            return


def prove(staged: Staged) -> None:
    """Raises: StoreFailed: the file does not hold what was written, or is no file of ours."""
    if not _STAGED.fullmatch(staged.path.name) or not _holds(staged.path, staged):
        raise StoreFailed(f"{staged.path} does not hold what was written to it; check the disk", path=str(staged.path))


def _holds(path: Path, wanted: Staged) -> bool:
    """Whether this is a regular file of these bytes; a file that cannot be read holds nothing."""
    try:
        with regular.opened(path) as file:
            return _measured(file) == (wanted.size_bytes, wanted.digest)
    except (InvalidInput, OSError):
        return False


def _measured(file: BinaryIO) -> tuple[int, str]:
    """How many bytes there are from here on, and their digest."""
    digest, size_bytes = hashlib.sha256(), 0
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
        size_bytes += len(piece)
    return size_bytes, digest.hexdigest()


@dataclass(frozen=True)
class Store:
    """All artefacts of one workspace, below its own folder."""

    folder: Path

    def path_of(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest

    @property
    def lock(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.lock")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else links, names or removes meanwhile.

        Raises: StoreBusy: somebody holds the lock for 5 s; names the process. StoreFailed.
        """
        return waited_for(self.lock, "artefacts", patience_s=PATIENCE_S, text=f"pid {os.getpid()}\n", its="their")

    def link(self, staged: Staged) -> bool:
        """Give a proved file its lasting name, durably; whether it had none before. A damaged one is replaced.

        Raises: DiskLow, StoreFailed, NotDurable: it may have the name, and nobody may rely on it.
        """
        path = self.path_of(staged.digest)
        atomic.make_folder(path.parent, protocol="artefact")
        new = not os.path.lexists(path)
        with atomic.explained(path, "written"):
            if new or not _holds(path, staged):
                _link(staged.path, path)
                crash_point("artefact.linked")
        atomic.sync_folder(path.parent)  # an older link may be one whose sync a crash prevented
        crash_point("artefact.folder_synced")
        return new

    def holds(self, digest: str, size_bytes: int) -> bool:
        """Whether the file is there with exactly these bytes; reads it whole."""
        path = self.path_of(digest)
        return _holds(path, Staged(path, size_bytes, digest))

    def remove(self, digest: str) -> None:
        """What cannot be removed is left to the next look."""
        with contextlib.suppress(OSError):
            self.path_of(digest).unlink(missing_ok=True)
            crash_point("artefact.orphan_removed")

    def digests(self) -> Iterator[str]:
        """Of every file that stands."""
        if self.folder.is_dir():
            for folder in atomic.listed(self.folder):
                yield from (path.name for path in atomic.listed(folder) if _DIGEST.fullmatch(path.name))

    def open(self, digest: str, size_bytes: int) -> BinaryIO:
        """The bytes, to be read. Raises: StoreFailed: missing, unreadable, or of another size."""
        path = self.path_of(digest)
        try:
            file = regular.opened(path)
        except InvalidInput as error:
            raise StoreFailed(f"artefact {digest}: {error}", path=str(path)) from None
        if os.fstat(file.fileno()).st_size != size_bytes:
            file.close()
            raise StoreFailed(f"artefact {path} has not the {size_bytes} bytes of its row; restore it", path=str(path))
        return file

    def open_proved(self, digest: str, size_bytes: int) -> BinaryIO:
        """As `open`, with every byte compared first. Raises: StoreFailed: also when they are damaged."""
        file = self.open(digest, size_bytes)
        try:
            if _measured(file) != (size_bytes, digest):
                raise StoreFailed(f"artefact {self.path_of(digest)}: its bytes are damaged; restore them from a copy")
            file.seek(0)
        except OSError as error:
            file.close()
            raise StoreFailed(
                f"artefact {self.path_of(digest)} cannot be read: {error.strerror}; check the disk"
            ) from error
        except BaseException:
            file.close()
            raise
        return file


def _link(staged: Path, path: Path) -> None:
    """A second name; where there is none, or a damaged file has the name, the file moves there instead."""
    try:
        os.link(staged, path)
    except OSError as error:
        if error.errno not in (*fresh.NO_LINKS, errno.EEXIST):
            raise
        os.replace(staged, path)
