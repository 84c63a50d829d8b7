"""The folder of a workspace, looked at: its disk, its permissions, and what dead processes left in it. Reads only."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from perenne import filesystem
from perenne.files import kernel_locks
from perenne.files.workspace import Workspace
from perenne.runtime import snapshot
from perenne.runtime.findings import Finding, bad, ok, some, warn
from perenne.store import space


def file_system(workspace: Workspace) -> Iterator[Finding]:
    """Whether the mount that really holds the ledger keeps the promises of a store."""
    verdict = filesystem.judge(workspace.own_folder)
    name, sentence = "file system", f"{workspace.own_folder} stands on {verdict.name}: {verdict.why}"
    if verdict.kind == "local":
        yield ok(name, sentence)
    elif verdict.kind in ("volatile", "weak", "readonly"):
        yield warn(name, sentence, "move the workspace to a local disk, unless this is only a trial")
    elif verdict.name in workspace.allow_filesystems:
        yield warn(name, f"{sentence}; the setting allow_filesystems accepts it", "move the workspace to a local disk")
    else:
        yield bad(name, sentence, "move the workspace to a local disk")


def free_space(workspace: Workspace) -> Iterator[Finding]:
    """Whether new work is still taken on."""
    found = space.floor(workspace.own_folder)
    sentence = f"{found.free_bytes:,} bytes are free, the floor is {found.floor_bytes:,}"
    if found.low:
        yield bad("free space", f"{sentence}: no job is taken or started", "free space; purge removes finished jobs")
    else:
        yield ok("free space", sentence)


def permissions(workspace: Workspace) -> Iterator[Finding]:
    """Whether anybody but the owner of the workspace may read or write the engine's files."""
    open_ones = [
        f"{path.relative_to(workspace.root)} ({mode:04o})"
        for path, mode in _modes(workspace)
        if mode & 0o077 or mode & 0o600 != 0o600
    ]
    if open_ones:
        sentence = f"not private: {some(open_ones)}"
        yield bad("permissions", sentence, f"chmod -R u=rwX,go= {workspace.own_folder} {workspace.manifest}")
    else:
        yield ok("permissions", "folders are 0700 and files 0600")


def _modes(workspace: Workspace) -> Iterator[tuple[Path, int]]:
    yield workspace.manifest, stat.S_IMODE(os.lstat(workspace.manifest).st_mode)
    for folder, _, names in os.walk(workspace.own_folder):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue  # gone since it was listed
            if not stat.S_ISLNK(found.st_mode):
                yield path, stat.S_IMODE(found.st_mode)


def leftovers(workspace: Workspace) -> Iterator[Finding]:
    """Files that a killed process left half-made, where nobody is at it now."""
    found = [path for place in (workspace.root, workspace.own_folder) for path in place.glob("*.stage-*")]
    found += workspace.own_folder.glob("export-*.sqlite*")
    # Asked afterwards: whoever was at one of them holds its lock still, or the file has its own name by now.
    locks = {snapshot.NAME: workspace.snapshot_lock, "export-": workspace.own_folder / "export.lock"}
    under_way = tuple(name for name, lock in locks.items() if kernel_locks.holders(lock))
    left = sorted(path.name for path in found if not path.name.startswith(under_way) and os.path.lexists(path))
    if left:
        sentence = f"half-made files of a killed export, restore, creation or snapshot: {some(left)}"
        next_step = f"remove them once no such command runs; whoever next writes {snapshot.NAME} removes its own"
        yield warn("leftovers", sentence, next_step)
    else:
        yield ok("leftovers", "no half-made file is left")


def replaced(workspace: Workspace) -> Iterator[Finding]:
    """Ledgers that a restore kept."""
    found = sorted(workspace.own_folder.glob("ledger.sqlite.replaced-*"))
    if found:
        size_bytes = sum(path.stat().st_size for path in found)
        sentence = (
            f"{len(found)} files of replaced ledgers are kept, {size_bytes:,} bytes: {some([p.name for p in found])}"
        )
        yield Finding("replaced", "ok", sentence, "remove them when you are sure of the restore")


def pipes(workspace: Workspace) -> Iterator[Finding]:
    """Pipes by which dead processes waited to be woken."""
    dead = [entry.name for entry in os.scandir(workspace.wake_folder) if _is_dead(entry.path)]
    if dead:
        sentence = f"{len(dead)} pipes of dead processes stand in {workspace.wake_folder}"
        yield warn("pipes", sentence, "start a worker: its recovery removes them")
    else:
        yield ok("pipes", "no pipe of a dead process is left")


def _is_dead(path: str) -> bool:
    """A pipe that nobody reads cannot be opened for writing; nothing is written."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW))
    except OSError as error:
        return error.errno == errno.ENXIO
    return False


CHECKS = (file_system, free_space, permissions, leftovers, replaced, pipes)
