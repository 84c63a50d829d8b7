"""Copies of a workspace's ledger, made beside the work; and a copy put in the ledger's place.

What does not live here: how a copy is made and looked through (`store.copies`), and the export of rows (`transfer`).
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from perenne.crashpoints import crash_point
from perenne.errors import (
    InvalidInput,
    StorageError,
    StoreBusy,
    StoreFailed,
    StoreForeign,
    StoreMissing,
    WorkerAlreadyRuns,
)
from perenne.files import atomic, fresh, kernel_locks
from perenne.files.lock import Lock, holder
from perenne.files.workspace import Workspace
from perenne.runtime.clock import Clock
from perenne.store.copies import Copies, Copy, Progress

_ENDS = ("", "-wal", "-shm", "-journal")


def backup(workspace: Workspace, path: Path, *, copies: Copies, progress: Progress | None = None) -> Copy:
    """Copy the ledger as it stands at one moment to a new file, looked through; work goes on beside it.

    Args: progress: told how many of how many pages are copied.
    Raises: StoreExists: the file is there, and is kept. StoreFailed, StoreForeign: the ledger is damaged, or not this
    workspace's; DiskLow, UnsafeFilesystem, StorageError: nothing has the name.
    Guarantees: after a crash the file is absent or whole and proved; at most `<name>.stage-<32 hex>` is left beside it.
    """
    path = path.absolute()
    fresh.refuse_taken(path)
    staged = fresh.stage_of(path)
    allowed = workspace.allow_filesystems
    with atomic.removed_on_failure(staged):
        copies.copy(workspace.ledger, staged, allowed=allowed, progress=progress)
        crash_point("backup.staged")
        found = copies.verify(staged, workspace=workspace.id, allowed=allowed)
        fresh.appear(staged, path, protocol="backup")
    return found


def restore(
    workspace: Workspace,
    path: Path,
    *,
    copies: Copies,
    clock: Clock,
    actor: str,
    progress: Progress | None = None,
) -> Copy:
    """Put a backup in the place of the ledger, which is kept beside it as `ledger.sqlite.replaced-<UTC>`.

    The epoch of the restored ledger is above that of both, from before it has its name: no token given before is worth
    anything. What ran when the backup was made is settled by the next recovery. Artefacts and checkpoints stay as they
    are. A ledger that is missing or damaged can be replaced too. A backup of an older schema is brought to today's.
    Returns: the backup as it was found.
    Raises: WorkerAlreadyRuns: names the holder. StoreBusy: somebody has the ledger open, named where the system tells.
    StoreForeign, SchemaTooNew, StoreFailed, StoreMissing: the backup is not one of this workspace, or is damaged.
    Nothing was changed then.
    Guarantees: killed at any point, the old ledger stands, or the new one with its new epoch; where the old one was
    damaged, perhaps none: the workspace then refuses to open until the restore is repeated.
    """
    path = path.absolute()
    allowed = workspace.allow_filesystems
    with contextlib.ExitStack() as held:
        _hold_workers(held, workspace)
        _refuse_itself(workspace, path)
        found = copies.verify(path, workspace=workspace.id, allowed=allowed)
        _remove_stages(workspace)
        above = _seize(held, workspace, copies)
        staged = fresh.stage_of(workspace.ledger)
        reason = f"restored from {path.name}, revision {found.revision}; epoch {{old}} became {{new}}"
        with atomic.removed_on_failure(staged):
            copies.copy(path, staged, allowed=allowed, progress=progress)
            crash_point("restore.staged")
            copies.claim_epoch(staged, above=above or 0, reason=reason, actor=actor, now=clock.now())
            _exchange(workspace.ledger, staged, above is not None, clock)
    with contextlib.suppress(StorageError):
        # The restore stands by now; whoever opens the ledger for writing next makes up for a failure here.
        copies.settle(workspace.ledger, allowed=allowed)
    return found


def _hold_workers(held: contextlib.ExitStack, workspace: Workspace) -> None:
    """Take every lock by which a worker proves that it lives."""
    owners = atomic.listed(workspace.owners_folder, "*.lock") if workspace.owners_folder.is_dir() else []
    for path in (workspace.worker_lock, *owners):
        lock = Lock.take(path, text=f"a restore, pid {os.getpid()}\n")
        if lock is None:
            who = holder(path).strip() or "another process"
            raise WorkerAlreadyRuns(
                f"restore: {workspace.root} is worked in, {path.name} is held by {who}; "
                f"stop it with SIGTERM, then try again",
                path=str(path),
                holder=who,
            )
        held.enter_context(lock)


def _refuse_itself(workspace: Workspace, path: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        if os.path.samefile(path, workspace.ledger):
            raise InvalidInput(f"backup: {path} is the ledger itself; give a copy of it", field="backup")


def _remove_stages(workspace: Workspace) -> None:
    """What killed restores left; nobody else makes such names, and no other restore runs beside this one."""
    for left in atomic.listed(workspace.own_folder, f"{workspace.ledger.name}.stage-*"):
        with atomic.explained(left, "removed"):
            left.unlink(missing_ok=True)
        crash_point("restore.leftover_removed")


def _seize(held: contextlib.ExitStack, workspace: Workspace, copies: Copies) -> int | None:
    """Keep everybody from the ledger that is to be replaced; its epoch, or None when it is missing or damaged."""
    try:
        return held.enter_context(copies.alone(workspace.ledger, allowed=workspace.allow_filesystems))
    except StoreBusy as error:
        raise _in_use(workspace) from error
    except (StoreMissing, StoreForeign, StoreFailed):
        if kernel_locks.holders(workspace.ledger):
            raise _in_use(workspace) from None
        return None


def _in_use(workspace: Workspace) -> StoreBusy:
    found = kernel_locks.holders(workspace.ledger)
    return StoreBusy(
        f"restore: {workspace.ledger} is open in {kernel_locks.sentence(found)}; end it, then try again",
        path=str(workspace.ledger),
        holders=[one.pid for one in found],
    )


def _exchange(ledger: Path, staged: Path, is_whole: bool, clock: Clock) -> None:
    """Give the old ledger its second name and the new one the first, so that a whole ledger always has it."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock.now())
    kept = f"{ledger}.replaced-{at:%Y%m%dT%H%M%S.%fZ}"
    with atomic.explained(Path(kept), "written"):
        if not (is_whole and _linked(ledger, kept)):
            _move_aside(ledger, kept)
        atomic.sync_folder(ledger.parent)
        crash_point("restore.kept_synced")
    atomic.promote(staged, ledger, protocol="restore")


def _linked(ledger: Path, kept: str) -> bool:
    try:
        os.link(ledger, kept)
    except OSError as error:
        if error.errno not in fresh.NO_LINKS:
            raise
        return False
    crash_point("restore.kept")
    return True


def _move_aside(ledger: Path, kept: str) -> None:
    """The database first: its WAL, left alone beside a new database, would be taken for that one's."""
    for end in _ENDS:
        if os.path.lexists(f"{ledger}{end}"):
            os.rename(f"{ledger}{end}", f"{kept}{end}")
            crash_point("restore.moved_aside")
