"""Files that appear whole or not at all: write aside, sync, rename, sync the folder.

What lives here: single files and folders. What does not: reading (`regular`), names of checkpoints and artefacts, SQL,
locks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import fnmatch
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from perenne.crashpoints import POINTS, crash_point
from perenne.errors import DiskLow, InvalidInput, NotDurable, StoreExists, StoreFailed
from perenne.files.regular import TROUBLE

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


def write(path: Path, data: bytes, *, protocol: str, mode: int = 0o600) -> None:
    """Make `path` hold exactly `data`, durably; a symbolic link at `path` is replaced, not followed.

    Args: protocol: whose crash points are passed, such as "publish". mode: exact, whatever the umask.
    Raises:
        DiskLow, StoreFailed: nothing changed at `path`, and no stage file is left.
        NotDurable: `path` holds `data`, but its folder could not be synced.
    Guarantees: after a crash `path` is the old file or the new one; at most `<name>.stage-<32 hex>` is left beside it.
    """
    staged = path.with_name(f"{path.name}.stage-{uuid.uuid4().hex}")
    stage(staged, data, protocol=protocol, mode=mode)
    with removed_on_failure(staged):
        promote(staged, path, protocol=protocol)


def stage(staged: Path, data: bytes, *, protocol: str, mode: int = 0o600) -> None:
    """Create `staged` with `data` and sync it; the name itself is durable only once its folder is synced.

    Raises:
        StoreExists: something has this name; it is left as it is. A name must never be used twice.
        DiskLow, StoreFailed: not written; the partial file is removed, and a failed sync is never tried again on it.
    """
    _refuse_unknown(protocol)
    with explained(staged, "written"):
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with removed_on_failure(staged):
            try:
                os.fchmod(descriptor, mode)
                _write_all(descriptor, data)
                flush(descriptor)
            finally:
                os.close(descriptor)
            crash_point(f"{protocol}.staged")


def promote(staged: Path, path: Path, *, protocol: str) -> None:
    """Rename a synced stage file over `path` in the same folder, and sync the folder.

    Raises:
        StoreFailed: not renamed; the stage file stands, and the caller decides what becomes of it.
        NotDurable: renamed, but the folder could not be synced; `sync_folder` may be tried again.
    """
    _refuse_unknown(protocol)
    with explained(path, "replaced"):
        os.replace(staged, path)
    crash_point(f"{protocol}.renamed")
    sync_folder(path.parent)
    crash_point(f"{protocol}.folder_synced")


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable. Raises NotDurable; unlike a file's sync, it may be tried again."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flush(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise NotDurable(
            f"folder {path} could not be synced ({error.strerror}), so its newest names may not survive a power cut; "
            f"check the disk, then try again",
            path=str(path),
        ) from error


def make_folder(path: Path, mode: int = 0o700, *, protocol: str = "create") -> None:
    """Make a folder and the parents it lacks, each durable in its own parent; existing folders stay as they are.

    Args: mode: of every new folder, exact, whatever the umask. protocol: whose crash points are passed.
    """
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent, mode, protocol=protocol)
    with explained(path, "made as a folder"):
        try:
            os.mkdir(path, mode)
            os.chmod(path, mode)
        except FileExistsError:
            if not path.is_dir():
                raise
    sync_folder(path)
    crash_point(f"{protocol}.folder_made")
    sync_folder(path.parent)
    crash_point(f"{protocol}.folder_synced")


def listed(folder: Path, pattern: str = "*") -> list[Path]:
    """What stands in a folder under such a name, in order. Raises StoreFailed when it cannot be read or is missing."""
    with explained(folder, "listed"):
        return sorted(path for path in folder.iterdir() if fnmatch.fnmatchcase(path.name, pattern))


def remove_tree(path: Path | str, *, point: str) -> None:
    """Remove a file, or a folder and all in it, one name at a time, so that a crash leaves less, never more.

    Passes the crash point after each file. Links are removed, never followed; a folder that forbids it is opened.
    Raises: OSError: something stays.
    """
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        crash_point(point)
        return
    os.chmod(path, 0o700)
    for name in os.listdir(path):
        remove_tree(os.path.join(path, name), point=point)
    os.rmdir(path)


def _refuse_unknown(protocol: str) -> None:
    if f"{protocol}.staged" not in POINTS:
        known = ", ".join(sorted(point.partition(".")[0] for point in POINTS if point.endswith(".staged")))
        raise InvalidInput(f"protocol {protocol!r} has no crash points; give one of {known}", protocol=protocol)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def flush(descriptor: int) -> None:
    """Sync to the medium; macOS needs its own call, because fsync there stops at the drive's cache."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


@contextlib.contextmanager
def removed_on_failure(staged: Path) -> Iterator[None]:
    """Nothing is left under the passing name when the block fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(staged)
        raise


@contextlib.contextmanager
def explained(path: Path, done: str) -> Iterator[None]:
    """Errors of the system about `path` in our words; done: what was to be done with it, such as "listed"."""
    try:
        yield
    except FileExistsError as error:
        raise StoreExists(
            f"{path} could not be {done}: something has this name; choose another", path=str(path)
        ) from error
    except OSError as error:
        if error.errno in _FULL_DISK:
            raise DiskLow(
                f"{path} could not be {done}: {error.strerror}; free space, then try again", path=str(path)
            ) from error
        raise StoreFailed(
            f"{path} could not be {done}: {error.strerror}; check that its folder exists and may be written, then try "
            f"again",
            path=str(path),
            passing=error.errno in TROUBLE,
        ) from error
