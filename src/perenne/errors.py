"""Every error a caller can meet, as one tree; the branch says who must act.

    EngineError
    ├── UsageError    the caller     UnknownKind · InvalidInput · TooLarge · JobNotFound · NotAllowed ·
    │                                DependencyCycle · DuplicateJob · StatementRefused · TransactionTooLong
    ├── StaleError    nobody: drop   StaleToken · ReportConflict · LeaseLost · AlreadyFinished
    ├── RefusedError  try later      QueueFull · NoCapacity · BudgetSpent · WorkspacePaused ·
    │                                WorkerAlreadyRuns · DiskLow
    ├── StorageError  the operator   StoreBusy · StoreMissing · StoreExists · StoreForeign · StoreFailed ·
    │                                SchemaTooNew · SchemaTooOld · UnsafeFilesystem · NotDurable ·
    │                                CheckpointMissing · CheckpointUnsupported · CheckpointCorrupt ·
    │                                CheckpointMismatch · CheckpointUnreadable
    ├── ToolError     the operator   ToolMissing · ToolTimedOut · ToolFailed · ConfinementMissing ·
    │                                WallLimitReached · ChildFailed
    └── DoubtError    a person       RecoveryRequired · OutcomeUnknown
    Cancelled, Unwound (BaseException)   raised at a boundary; no `except Exception` may swallow them

The docstring of a class is its default message; facts are attributes; exit codes and HTTP statuses live in
`surfaces/faults.py`, not here.
"""

from __future__ import annotations

import re
from typing import Any


class EngineError(Exception):
    """The engine could not do what was asked."""

    def __init__(self, message: str | None = None, **facts: object) -> None:
        """Args: message: one sentence with field, value, limit and next step. facts: the same, for programs."""
        super().__init__(message or (type(self).__doc__ or "").strip())
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def code(self) -> str:
        """Stable name for programs, such as `stale_token`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


class UsageError(EngineError):
    """The request is wrong; the caller must change it."""


class UnknownKind(UsageError):
    """No kind of this name and version is known here."""


class InvalidInput(UsageError):
    """A value does not fit its field."""


class TooLarge(UsageError):
    """A value is larger than its limit."""


class JobNotFound(UsageError):
    """No job has this id in this workspace."""


class NotAllowed(UsageError):
    """The state of the job does not allow this verb."""


class DependencyCycle(UsageError):
    """The dependencies form a circle."""


class DuplicateJob(UsageError):
    """The key already belongs to a job with other content."""


class StatementRefused(UsageError):
    """The database refuses this statement of an application."""


class TransactionTooLong(UsageError):
    """The transaction took longer than it may, and was undone."""


class StaleError(EngineError):
    """The caller is late; what it reports is dropped."""


class StaleToken(StaleError):
    """The attempt has lost its right to write."""


class ReportConflict(StaleError):
    """Another report was already recorded for this attempt."""


class LeaseLost(StaleError):
    """The lease of the attempt has ended."""


class AlreadyFinished(StaleError):
    """The job has already ended."""


class RefusedError(EngineError):
    """Not now; try again later."""


class QueueFull(RefusedError):
    """The queue holds as many unfinished jobs as it may."""


class NoCapacity(RefusedError):
    """The machine has no room for this job."""


class BudgetSpent(RefusedError):
    """The budget cannot pay the next step."""


class WorkspacePaused(RefusedError):
    """The workspace or the queue is paused."""


class WorkerAlreadyRuns(RefusedError):
    """Another worker serves this workspace."""


class DiskLow(RefusedError):
    """The disk has too little free space."""


class StorageError(EngineError):
    """The store cannot be used as it is; the operator must act."""


class StoreBusy(StorageError):
    """Another process held the store's write lock until the deadline."""


class StoreMissing(StorageError):
    """The store is not where it should be; it is never recreated silently."""


class StoreExists(StorageError):
    """There is already something where the store should be created."""


class StoreForeign(StorageError):
    """The store belongs to something else."""


class StoreFailed(StorageError):
    """The store answered with an input or output error, or is damaged."""


class SchemaTooNew(StorageError):
    """The store was written by a newer version of this program."""


class SchemaTooOld(StorageError):
    """The store must be migrated first; only the worker that holds the lock may do it."""


class UnsafeFilesystem(StorageError):
    """The file system cannot keep the promises of the store."""


class NotDurable(StorageError):
    """The data stand but are not yet proved durable."""


class CheckpointMissing(StorageError):
    """The checkpoint that the ledger names is in no file."""


class CheckpointUnsupported(StorageError):
    """The checkpoint has a format this version does not read."""


class CheckpointCorrupt(StorageError):
    """The checkpoint is damaged."""


class CheckpointMismatch(StorageError):
    """The checkpoint is not the one that the ledger names."""


class CheckpointUnreadable(StorageError):
    """The checkpoint cannot be read."""


class ToolError(EngineError):
    """An outside program could not do its part; the operator must act."""


class ToolMissing(ToolError):
    """The outside program is not installed."""


class ToolTimedOut(ToolError):
    """The outside program took longer than it may."""


class ToolFailed(ToolError):
    """The outside program failed."""


class ConfinementMissing(ToolError):
    """This machine does not offer the required confinement."""


class WallLimitReached(ToolError):
    """The attempt took longer than its kind allows."""


class ChildFailed(ToolError):
    """The process in which a handler ran ended, or could not be started."""


class DoubtError(EngineError):
    """It cannot be told what happened; a person must look."""


class RecoveryRequired(DoubtError):
    """The published result is not what it should be; a person must resolve the job."""


class OutcomeUnknown(DoubtError):
    """It is not known whether the change was made."""


class Cancelled(BaseException):
    """Raised at a boundary when the job was cancelled; let it pass."""


class Unwound(BaseException):
    """Raised at a boundary when the attempt must end without an answer (pause, suspend, limit); let it pass."""
