"""Named places where a test may end the process as `kill -9` would; in production each is one comparison.

What lives here: the list of names, the arming rule, the call. What does not: anything that decides what a crash means.
Between two neighbouring points of a protocol lies at most one durable call (commit, fsync, rename, unlink, spawn,
signal), so killing at every point visits every state that a crash can leave behind.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping

from perenne.errors import NotAllowed

VARIABLE = "PERENNE_CRASH_POINT"

POINTS: tuple[str, ...] = (
    "create.folder_made",
    "create.store_formatted",  # an empty database, in the journal mode it will keep
    "create.store_made",
    "create.store_named",  # it says whose it is
    "create.catalogue_made",  # an application's own memory
    "create.staged",  # the manifest of a new workspace
    "create.renamed",
    "create.folder_synced",
    "migrate.written",
    "migrate.committed",
    "wake.pipe_made",  # not yet under its name
    "wake.pipe_named",
    "wake.pipe_removed",
    "owner.joined",
    "owner.left",
    "submit.written",  # rows written, not committed
    "submit.committed",
    "submit.woken",
    "control.written",
    "control.committed",
    "claim.written",
    "claim.committed",
    "run.looked_up",
    "run.boundary",  # nothing durable; where a handler may be paused it may also die
    "run.copied",  # the tool's private copy stands
    "run.host_spawned",  # the parent of all tools of this worker
    "run.tool_requested",
    "run.tool_spawned",
    "run.tool_signaled",
    "run.tool_ended",
    "run.copy_removed",
    "run.child_spawned",  # a process that calls handlers
    "run.child_locked",  # the lock file of its attempt stands, and names it
    "run.child_asked",  # to call the handler; the lock is its own now
    "run.child_signaled",
    "run.child_unlocked",  # the lock file is gone: nothing of the attempt runs any more
    "run.executed",
    "run.leftover_removed",  # a file that the handler left in its private folder
    "progress.written",
    "progress.committed",
    "checkpoint.staged",
    "checkpoint.name_synced",
    "checkpoint.written",  # its row, not committed
    "checkpoint.committed",
    "checkpoint.renamed",
    "checkpoint.folder_synced",
    "checkpoint.leftover_removed",  # a stage file that no row names, or a file of a job that goes on no more
    "checkpoint.lock_removed",
    "artefact.staged",
    "artefact.folder_made",
    "artefact.linked",  # under its digest
    "artefact.folder_synced",
    "artefact.written",  # its row, not committed
    "artefact.committed",
    "artefact.leftover_removed",  # its stage file, which has its second name by now
    "artefact.orphan_removed",  # bytes that no row names
    "mail.parsed",  # nothing of it is kept yet
    "mail.built",
    "mail.children_submitted",  # the messages nested in it have their jobs
    "publish.begun",
    "publish.folder_made",
    "publish.leftover_removed",  # the stage file of a dead attempt of the same identity
    "publish.staged",
    "publish.renamed",
    "publish.folder_synced",
    "publish.written",
    "publish.committed",
    "publish.rolled_back",
    "publish.undone",  # the file of a failed attempt is removed
    "acknowledge.begun",
    "acknowledge.written",
    "acknowledge.committed",
    "acknowledge.told",
    "notice.registered",
    "notice.acknowledged",
    "recover.child_signaled",  # what a dead worker's attempt left running
    "recover.child_unlocked",
    "recover.looked_up",
    "recover.leftover_removed",
    "recover.folder_synced",
    "recover.lock_removed",
    "recover.written",
    "recover.committed",
    "export.leftover_removed",
    "export.staged",
    "export.renamed",
    "export.folder_synced",
    "snapshot.leftover_removed",  # the stage file of a writer that was killed
    "snapshot.staged",
    "snapshot.renamed",
    "snapshot.folder_synced",
    "import.folder_made",
    "import.leftover_removed",  # a stage file, or a copy that no row names
    "import.staged",
    "import.renamed",
    "import.folder_synced",
    "import.written",
    "import.committed",
    "import.rolled_back",
    "import.undone",
    "adopt.leftover_removed",  # a file of a ledger that no workspace names
    "adopt.altered",  # another program's store has its new tables, and its old version still
    "adopt.raised",  # and its new version
    "adopt.written",
    "adopt.committed",
    "purge.written",
    "purge.committed",
    "purge.log_removed",  # the log of a job that is gone
    "purge.lock_removed",  # of a worker that left and is dead
    "purge.owners_forgotten",
    "copy.created",  # an empty file, to become a copy of a ledger
    "copy.filled",
    "backup.staged",
    "backup.renamed",
    "backup.folder_synced",
    "backup.leftover_removed",  # the name under which it was made
    "restore.leftover_removed",  # a copy that a killed restore left
    "restore.staged",
    "restore.written",
    "restore.committed",  # the epoch is raised, under no name that anybody opens
    "restore.kept",  # the replaced ledger has its second name
    "restore.moved_aside",  # one file of a replaced ledger that cannot be read
    "restore.kept_synced",
    "restore.renamed",
    "restore.folder_synced",
)

_COUNT = re.compile("[1-9][0-9]{0,8}")

_armed: tuple[str, int] | None = None
_observer: Callable[[str], None] | None = None
_lock = threading.Lock()


def arm(environment: Mapping[str, str], *, specimen: bool) -> None:
    """Arm the point that the environment names, as `name` or `name:n` for its n-th passage.

    Raises:
        NotAllowed: the variable is set but the workspace is no specimen, or the name or the count is unknown.
    """
    global _armed
    wanted = environment.get(VARIABLE)
    if wanted is None:
        return
    if not specimen:
        raise NotAllowed(
            f"{VARIABLE}={wanted} is set, but this workspace is not a specimen; "
            f"unset the variable, or use a workspace whose manifest says specimen = true",
            variable=VARIABLE,
            value=wanted,
        )
    name, colon, count = wanted.partition(":")
    if name not in POINTS or (colon and not _COUNT.fullmatch(count)):
        raise NotAllowed(
            f"{VARIABLE}={wanted} names no crash point; give one of {', '.join(POINTS)}, optionally with :n (n from 1)",
            variable=VARIABLE,
            value=wanted,
        )
    _armed = (name, int(count or 1))


def observe(observer: Callable[[str], None] | None) -> None:
    """Let a test see each passage (None: stop)."""
    global _observer
    _observer = observer


def crash_point(name: str) -> None:
    """End this process by SIGKILL when the point is armed and this is the passage asked for; else do nothing."""
    if _observer is not None:
        _observer(name)
    if _armed is not None and _armed[0] == name:
        _count_down(name)


def _count_down(name: str) -> None:
    global _armed
    with _lock:
        assert _armed is not None
        left = _armed[1] - 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        _armed = (name, left)
