"""Removes the files of checkpoints from which nothing goes on any more: of jobs that are completed or gone.

What does not live here: files of jobs that go on (`saving`), and rows, which the ledger drops with the end of the job.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from perenne.core.job import Job
from perenne.core.states import JobState
from perenne.crashpoints import crash_point
from perenne.errors import StorageError
from perenne.files import atomic
from perenne.files.checkpoint import Files
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.store.checkpoints import Checkpoints


def remove_of(workspace: Workspace, job: Job) -> None:
    """The files of a job that has ended, if it was completed; whoever failed or was cancelled may be requeued."""
    files = Files(workspace.checkpoints_folder, job.id)
    if job.state is JobState.COMPLETED and files.lock.exists():
        _remove(files)


def sweep(workspace: Workspace, checkpoints: Checkpoints) -> None:
    """What dead workers left: rows of completed jobs, and files that no row names.

    Raises: StorageError.
    """
    folder = workspace.checkpoints_folder
    if not folder.is_dir():
        return  # of before there were any
    states = checkpoints.kept()
    if JobState.COMPLETED in states.values():
        checkpoints.drop_completed()
    kept = {id for id, state in states.items() if state != JobState.COMPLETED}
    for id in sorted({path.name.partition(".")[0] for path in atomic.listed(folder)} - kept):
        _remove(Files(folder, id), checkpoints)


def _remove(files: Files, checkpoints: Checkpoints | None = None) -> None:
    """Under the lock, where nobody is between staging and committing; what cannot be removed is left to a later sweep.

    Args: checkpoints: asked again under the lock whether the job has one by now.
    """
    with contextlib.suppress(StorageError):
        lock = Lock.take(files.lock)
        if lock is None:
            return
        with lock:
            if checkpoints is None or checkpoints.of(files.job_id) is None:
                files.remove([*files.leftovers(None), files.canonical])
                _unlink(files.lock)


def _unlink(lock: Path) -> None:
    with contextlib.suppress(OSError):
        lock.unlink(missing_ok=True)
        crash_point("checkpoint.lock_removed")
