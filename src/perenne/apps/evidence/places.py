"""Where a file of an investigation may lie, and how it is read: below the root, through no symlink, as a regular file.

Names, folders and reading; nothing here writes a file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, StoreFailed, StoreMissing, TooLarge
from perenne.files import atomic, regular

MAIL_ORIGINALS = "01_Preuves_Originales/Emails"
IMAGE_ORIGINALS = "01_Preuves_Originales/Images"
DERIVATIVES = "02_Preuves_Traitees/Extractions"
MAIL_DERIVATIVES = f"{DERIVATIVES}/EML"
IMAGE_DERIVATIVES = f"{DERIVATIVES}/ExifTool"
RUNTIME = ".labfy/runtime"
SPECIMEN_INPUT = "SPECIMEN_INPUT"
CATALOGUE = "Enquete.sqlite"
JOBS_SNAPSHOT = "jobs-snapshot.json"

_CHUNK_BYTES = 1 << 20


def parts_of(relative: str) -> tuple[str, ...]:
    """The components of a safe relative path: no root, no `.` or `..`, nothing empty, no backslash, no NUL.

    Raises:
        InvalidInput: names the path.
    """
    parts = tuple(relative.split("/")) if isinstance(relative, str) else ()
    if not parts or "\\" in relative or "\0" in relative or any(part in ("", ".", "..") for part in parts):
        raise InvalidInput(
            f"relative_path: {relative!r} does not name a file below the investigation; "
            "it needs plain components joined by /, with no root, `.`, `..` or backslash",
            field="relative_path",
            value=relative,
        )
    return parts


def sha256_of(content: bytes) -> str:
    """The SHA-256 of the bytes, in lower-case hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_below(root: Path, relative: str, *, limit_bytes: int) -> bytes:
    """The bytes of a file below `root`.

    Raises:
        StoreMissing: nothing is there.
        StoreFailed: a component is a symlink or no folder, or the end is no regular file; `passing`: the machine could
            not read it, which says nothing about the file.
        TooLarge: it has more than `limit_bytes`.
    """
    with _opened(root, relative) as file:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise StoreFailed(f"{relative} is {_what(status.st_mode)}, not a regular file", path=relative)
        with atomic.explained(root / relative, "read"):
            return b"".join(_chunks(file, relative, limit_bytes))


def measure_below(root: Path, relative: str, *, hashed: bool) -> tuple[int, str | None]:
    """The size in bytes of a file below `root` and, when asked for, its SHA-256; of any size, in little memory.

    Raises:
        StoreMissing, StoreFailed: as `read_below`.
    """
    with _opened(root, relative) as file:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise StoreFailed(f"{relative} is {_what(status.st_mode)}, not a regular file", path=relative)
        digest = hashlib.sha256()
        while hashed and (chunk := os.read(file, _CHUNK_BYTES)):
            digest.update(chunk)
        return status.st_size, digest.hexdigest() if hashed else None


def folder_below(root: Path, relative: str) -> Path | None:
    """The folder below `root`, each component a real folder; None when a component does not exist.

    Raises:
        StoreFailed: a component is a symlink or no folder.
    """
    path = root
    for part in parts_of(relative):
        path = path / part
        if not _is_folder(path):
            return None
    return path


def make_folder_below(root: Path, relative: str, point: str) -> Path:
    """The folder below `root`, made 0700 and durable where it is missing; passes the crash point after each.

    Raises:
        StoreFailed: a component is a symlink or no folder, or cannot be made.
    """
    path = root
    for part in parts_of(relative):
        path = path / part
        if not _is_folder(path):
            _make_folder(path)
            crash_point(point)
    return path


def _is_folder(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(mode):
        raise StoreFailed(
            f"{path} is {_what(mode)} where a real folder is expected; put the folder back and run again",
            path=str(path),
        )
    return True


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(0o700, exist_ok=True)
    except OSError as error:
        raise StoreFailed(f"the folder {path} cannot be made: {error.strerror}", path=str(path)) from error
    atomic.sync_folder(path.parent)


def _chunks(file: int, relative: str, limit_bytes: int) -> Iterator[bytes]:
    size_bytes = 0
    while chunk := os.read(file, _CHUNK_BYTES):
        size_bytes += len(chunk)
        if size_bytes > limit_bytes:
            raise TooLarge(
                f"{relative} has more than the {limit_bytes} bytes read here", path=relative, limit=limit_bytes
            )
        yield chunk


@contextmanager
def _opened(root: Path, relative: str) -> Iterator[int]:
    *folders, name = parts_of(relative)
    held: list[int] = []
    try:
        with atomic.explained(root, "opened"):
            held.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for folder in folders:
            held.append(_step(held[-1], folder, relative, os.O_DIRECTORY))
        # A FIFO would block the opening until somebody writes to it.
        held.append(_step(held[-1], name, relative, os.O_NONBLOCK))
        yield held[-1]
    finally:
        for file in held:
            os.close(file)


def _step(folder: int, name: str, relative: str, flags: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    except FileNotFoundError:
        raise StoreMissing(f"{relative} is missing", path=relative) from None
    except OSError as error:
        if error.errno in regular.TROUBLE:
            raise regular.unreadable(Path(relative), error) from error
        raise StoreFailed(
            f"{relative} cannot be read as a file below the investigation: "
            f"{name} is a symlink, no folder, or refused ({error.strerror})",
            path=relative,
        ) from error


def _what(mode: int) -> str:
    for matches, word in (
        (stat.S_ISLNK, "a symlink"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if matches(mode):
            return word
    return "a device"
