"""Files that somebody gave, to be read: only regular ones are opened, and nothing is waited for or followed.

What does not live here: files of our own that are replaced whole (`atomic`) or appear once (`fresh`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as modes
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from perenne.errors import EngineError, InvalidInput, StoreFailed, TooLarge

# Of the machine, and no fault of the file that was to be read: the fact `passing` of the error says so.
TROUBLE = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)
_CHUNK_BYTES = 1 << 20


def read(path: Path, *, limit_bytes: int) -> bytes:
    """The bytes of a regular file, at most `limit_bytes`; nothing else is ever opened, waited for or followed.

    Raises:
        InvalidInput: missing, forbidden, or a link, folder, device, pipe or socket; the sentence says which.
        TooLarge: the file is larger than the limit. StoreFailed: the machine could not read it.
    """
    with readable(path), opened(path) as file:
        _refuse_large(path, os.fstat(file.fileno()).st_size, limit_bytes)
        data = _read_all(file.fileno(), limit_bytes + 1)
    _refuse_large(path, len(data), limit_bytes)
    return data


def opened(path: Path, *, buffering: int = 0) -> BinaryIO:
    """A regular file, open for reading. Raises as `read` does, but for the size."""
    with readable(path):
        # Asked before opening, because opening alone can act on a device; asked again of what was really opened.
        _refuse_irregular(path, os.lstat(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_irregular(path, os.fstat(descriptor))
            return open(descriptor, "rb", buffering=buffering)
        except BaseException:
            os.close(descriptor)
            raise


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """What goes wrong with a file that somebody gave, as errors that say what to do: InvalidInput, StoreFailed."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise InvalidInput(f"path {str(path)!r} cannot name a file: {error}", path=str(path)) from error


def unreadable(path: Path, error: OSError) -> EngineError:
    """Why a file that somebody gave could not be read: InvalidInput, or StoreFailed when that says nothing about it."""
    if error.errno in TROUBLE:
        return StoreFailed(
            f"file {path} could not be read: {error.strerror}; check the disk and how many files are open, "
            f"then try again",
            path=str(path),
            passing=True,
        )
    return InvalidInput(
        f"file {path} cannot be read: {error.strerror}; give an existing, readable, regular file", path=str(path)
    )


def _refuse_irregular(path: Path, found: os.stat_result) -> None:
    if not modes.S_ISREG(found.st_mode):
        kind = _kind_of(found.st_mode)
        raise InvalidInput(f"{path} is a {kind}; give a regular file", path=str(path), found=kind)


def _kind_of(mode: int) -> str:
    kinds = {
        modes.S_IFLNK: "symbolic link",
        modes.S_IFDIR: "folder",
        modes.S_IFIFO: "named pipe",
        modes.S_IFSOCK: "socket",
        modes.S_IFCHR: "character device",
        modes.S_IFBLK: "block device",
    }
    return kinds.get(modes.S_IFMT(mode), "special file")


def _refuse_large(path: Path, size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise TooLarge(
            f"file {path} has at least {size_bytes} bytes, the limit is {limit_bytes}; give a smaller file",
            path=str(path),
            size_bytes=size_bytes,
            limit_bytes=limit_bytes,
        )


def _read_all(descriptor: int, most_bytes: int) -> bytes:
    """What the file holds, at most `most_bytes`, even when it grows meanwhile."""
    pieces: list[bytes] = []
    left_bytes = most_bytes
    while left_bytes and (piece := os.read(descriptor, min(left_bytes, _CHUNK_BYTES))):
        pieces.append(piece)
        left_bytes -= len(piece)
    return b"".join(pieces)
