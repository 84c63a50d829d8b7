"""The checkpoints of one attempt: the state it goes on from, and each state that it saves.

A small state is one row; a large one is staged in a file, committed in the ledger, then promoted. What does not live
here: the record (`files.record`), the files (`files.checkpoint`), the row (`store.checkpoints`), and when to save.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from perenne.core import limits
from perenne.core.job import Token
from perenne.core.kind import Kind
from perenne.errors import (
    CheckpointCorrupt,
    CheckpointMismatch,
    CheckpointMissing,
    CheckpointUnreadable,
    CheckpointUnsupported,
    InvalidInput,
    OutcomeUnknown,
    StorageError,
    StoreFailed,
)
from perenne.files import atomic, record
from perenne.files.checkpoint import Files, Named
from perenne.files.workspace import Workspace
from perenne.store import apptables
from perenne.store.checkpoints import Checkpoints, Progress, Saved
from perenne.store.together import OwnTables

Also = Callable[[OwnTables], object]
# The five answers about a checkpoint that the job cannot go on from.
REFUSALS = (
    CheckpointMissing,
    CheckpointUnsupported,
    CheckpointCorrupt,
    CheckpointMismatch,
    CheckpointUnreadable,
)


class Kept(StrEnum):
    """What became of a state that was to be saved; after each of them the job goes on from it."""

    DURABLE = "durable"
    UNCHANGED = "unchanged"  # it is the one that was saved before: nothing was written
    NOT_YET_PROMOTED = "published_not_durable"  # it stands, but its lasting name is not on the disk for certain


class Store(Protocol):
    """Where an attempt keeps its checkpoints: the ledger, or the worker of a child."""

    def locked(self) -> AbstractContextManager[None]:
        """Nobody else touches the files of this job's checkpoints meanwhile."""

    def last(self) -> Saved | None:
        """What the ledger names now. Asked under the lock; saves that it does not name are removed."""

    def commit(self, saved: Saved, large: bool, progress: Progress | None, also: Also | None) -> Kept:
        """Make it the last one; a large one is promoted from its stage file.

        Raises: StaleToken, StorageError, DiskLow: the one before stands.
        """


class Saving:
    """The checkpoints of one attempt."""

    def __init__(self, kind: Kind, token: Token, workspace: Workspace, store: Store) -> None:
        self.store = store
        self._kind, self._token, self._workspace = kind, token, workspace
        self._generation = 0
        self._last: bytes | None = None
        self._unsynced = False
        self.sequences = 0
        self.stands = False  # whether the ledger has one

    @cached_property
    def _files(self) -> Files:
        return Files(self._workspace.checkpoints_folder, self._token.job_id)

    def restore(self) -> Any:
        """The state that the job goes on from, None at its beginning; twice is once.

        Raises: one of `REFUSALS`; StoreBusy, StoreFailed: it is not known yet.
        """
        with ExitStack() as locked:
            try:
                locked.enter_context(self.store.locked())
            except StoreFailed as error:
                raise CheckpointUnreadable(f"its lock could not be taken: {error}") from error
            saved = self.store.last()
            return None if saved is None else self._restored(saved)

    def _restored(self, saved: Saved) -> Any:
        found = record.decode(bytes_of(saved, self._files))
        if (found.job, found.kind) != (self._token.job_id, self._kind.name):
            raise CheckpointMismatch(f"it is of job {found.job}, kind {found.kind}")
        if (found.attempt, found.number, found.generation) != (saved.attempt, saved.number, saved.generation):
            raise CheckpointMismatch(f"it is save {found.generation} of attempt {found.number}, {found.attempt}")
        state = self._kind.read_state(found.version, found.state)
        self._last = found.state if found.version == self._kind.version else None
        self.sequences, self.stands = saved.sequences, True
        return state

    def save(self, state: object, progress: Progress, shown: bool, now: int, also: Also | None) -> Kept:
        """Save a state; an unchanged one is not written again, unless `also` is to be.

        Args: progress: belongs to the state; shown: whether it is in the ledger already.
        Raises: InvalidInput, TooLarge: the state. StaleToken, StorageError, DiskLow: the last checkpoint stands.
        """
        if self._kind.state_type is None:
            raise InvalidInput(
                f"checkpoint: {self._kind} has no state_type; give it one to its Kind, or to its task", field="state"
            )
        encoded = self._kind.encode_state(state)
        if encoded == self._last and also is None:
            return Kept.UNCHANGED
        self._generation += 1
        data, digest = self._record(encoded, progress)
        large = len(encoded) > limits.STATE_IN_ROW_BYTES
        saved = Saved(
            attempt=self._token.attempt,
            number=self._token.number,
            generation=self._generation,
            sequences=self.sequences,
            size_bytes=len(data),
            digest=digest,
            record=None if large else data,
            saved_at=now,
        )
        unshown = None if shown else progress
        kept = self._staged(data, saved, unshown, also) if large else self.store.commit(saved, False, unshown, also)
        self._last, self.stands = encoded, True
        return kept

    def _record(self, state: bytes, progress: Progress) -> tuple[bytes, str]:
        return record.encode_with_digest(
            record.Checkpoint(
                job=self._token.job_id,
                kind=self._kind.name,
                version=self._kind.version,
                attempt=self._token.attempt,
                number=self._token.number,
                generation=self._generation,
                sequences=self.sequences,
                done=progress[0],
                total=progress[1],
                state=state,
            )
        )

    def _staged(self, data: bytes, saved: Saved, progress: Progress | None, also: Also | None) -> Kept:
        staged = self._files.staged(saved.attempt, saved.number, saved.generation)
        with self.store.locked():
            if self._unsynced:
                atomic.sync_folder(self._files.folder)  # before this nothing is staged beside a name in doubt
                self._unsynced = False
            self._files.stage(staged, data)
            try:
                kept = self.store.commit(saved, True, progress, also)
            except OutcomeUnknown:
                raise  # the ledger may name it
            except BaseException:
                self._files.remove([staged])
                raise
        self._unsynced = kept is Kept.NOT_YET_PROMOTED
        return kept


class LedgerStore:
    """Where an attempt in the worker's own process keeps them."""

    def __init__(
        self,
        workspace: Workspace,
        checkpoints: Checkpoints,
        token: Token,
        app: str,
        say: Callable[[str, str], object],
    ) -> None:
        """Args: app: whose own tables `also` writes. say: told a word and a sentence about a save that stands."""
        self._workspace = workspace
        self._checkpoints, self._token, self._app, self._say = checkpoints, token, app, say

    @cached_property
    def files(self) -> Files:
        """Those of this job."""
        return Files(self._workspace.checkpoints_folder, self._token.job_id)

    def locked(self) -> AbstractContextManager[None]:
        return self.files.locked()

    def last(self) -> Saved | None:
        """What the ledger names now; stage files that it does not name are removed. The caller has the lock."""
        saved = self._checkpoints.of(self._token.job_id)
        self.files.remove(self.files.leftovers(None if saved is None else named(saved)))
        return saved

    def commit(self, saved: Saved, large: bool, progress: Progress | None, also: Also | None) -> Kept:
        prefix = "" if also is None else apptables.prefix_of(self._app)
        self._checkpoints.save(self._token, saved, progress, also, prefix)
        return self._promoted(saved.generation) if large else Kept.DURABLE

    def _promoted(self, generation: int) -> Kept:
        """It is committed already, so that nothing here is a failure of the save."""
        try:
            self.files.promote(self.files.staged(self._token.attempt, self._token.number, generation))
            return Kept.DURABLE
        except StorageError as error:
            self._say("checkpoint_not_promoted", str(error))
            return Kept.NOT_YET_PROMOTED


def bytes_of(saved: Saved, files: Files) -> bytes:
    """The record that the ledger names. Raises: as `Files.find`; CheckpointCorrupt: the row's own record is damaged."""
    if saved.record is None:
        return files.find(named(saved))
    if hashlib.sha256(saved.record).hexdigest() != saved.digest:
        raise CheckpointCorrupt("the record in the ledger has another SHA-256 than the ledger says")
    return saved.record


def named(saved: Saved) -> Named:
    return Named(saved.attempt, saved.number, saved.generation, saved.size_bytes, saved.digest)


def refused(error: StorageError) -> str:
    """The finding about a checkpoint that cannot be used."""
    return f"{error.code}: {error}; restore the file, or resolve the job from its start"
