"""The files of checkpoints: one canonical file a job, and stage files that are committed elsewhere and then promoted.

What lives here: names, writing, promoting, and which file is the one that the ledger names. What does not: the record
(`record`), the row, and when. Whoever stages, promotes or looks holds the job's lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from perenne.crashpoints import crash_point
from perenne.errors import (
    CheckpointCorrupt,
    CheckpointMismatch,
    CheckpointMissing,
    CheckpointUnreadable,
    EngineError,
    StorageError,
    TooLarge,
)
from perenne.files import atomic, record, regular
from perenne.files.lock import waited_for

PATIENCE_S = 5.0


@dataclass(frozen=True)
class Named:
    """A checkpoint as the ledger names it."""

    attempt: str
    number: int
    generation: int
    size_bytes: int
    digest: str  # SHA-256, in hexadecimal


@dataclass(frozen=True)
class Files:
    """The files of one job's checkpoints."""

    folder: Path
    job_id: str

    @property
    def canonical(self) -> Path:
        return self.folder / f"{self.job_id}.chk"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.job_id}.chk.lock"

    def staged(self, attempt: str, number: int, generation: int) -> Path:
        """The name of a stage file; a generation is used once, so a name is never used twice."""
        return self.folder / f"{self.job_id}.{number}-{attempt[:8]}.{generation}.next"

    def locked(self) -> AbstractContextManager[None]:
        """Nobody else stages, promotes or looks meanwhile.

        Raises: StoreBusy: somebody holds the lock for 5 s; names the process. StoreFailed.
        """
        return waited_for(self.lock, f"checkpoint of job {self.job_id}", patience_s=PATIENCE_S, text=None)

    def stage(self, staged: Path, data: bytes) -> None:
        """Write a stage file whose bytes and name are durable.

        Raises: DiskLow, StoreFailed: it is not there. NotDurable: nor is it then, for a name that may go is none.
        """
        atomic.stage(staged, data, protocol="checkpoint")
        with atomic.removed_on_failure(staged):
            atomic.sync_folder(self.folder)
        crash_point("checkpoint.name_synced")

    def promote(self, staged: Path) -> None:
        """Give the stage file that the ledger names its lasting name. Raises: StoreFailed; NotDurable: it has it."""
        atomic.promote(staged, self.canonical, protocol="checkpoint")

    def find(self, named: Named) -> bytes:
        """The bytes of the checkpoint that the ledger names: of the canonical file, else of the stage file, which is
        promoted. Twice is once.

        Raises: CheckpointMissing, CheckpointMismatch, CheckpointCorrupt, CheckpointUnsupported, CheckpointUnreadable.
        """
        staged = self.staged(named.attempt, named.number, named.generation)
        refusals: list[EngineError] = []
        for path in (self.canonical, staged):
            try:
                data = _read(path, named)
            except StorageError as refusal:
                refusals.append(refusal)
                continue
            if data is not None:
                if path == staged:
                    with contextlib.suppress(EngineError):  # it is read as it is; who looks next promotes what stands
                        self.promote(staged)
                return data
        if not refusals:
            raise CheckpointMissing(f"neither {self.canonical.name} nor {staged.name} is there")
        raise next((one for one in refusals if isinstance(one, CheckpointUnreadable)), refusals[0])

    def leftovers(self, named: Named | None) -> list[Path]:
        """Stage files that no row names."""
        kept = None if named is None else self.staged(named.attempt, named.number, named.generation)
        return [path for path in atomic.listed(self.folder, f"{self.job_id}.*.next") if path != kept]

    def remove(self, paths: list[Path]) -> None:
        """What cannot be removed is left to the next look."""
        for path in paths:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                crash_point("checkpoint.leftover_removed")


def _read(path: Path, named: Named) -> bytes | None:
    """The bytes of the file if it is the one that is named; None when it is not there.

    Raises: CheckpointMismatch, CheckpointCorrupt, CheckpointUnsupported, CheckpointUnreadable.
    """
    try:
        if not os.path.lexists(path):
            return None
        data = regular.read(path, limit_bytes=record.RECORD_BYTES)
    except TooLarge as error:
        raise CheckpointCorrupt(f"{path.name}: {error}") from error
    except EngineError as error:
        raise CheckpointUnreadable(f"{path.name} could not be read: {error}") from error
    if len(data) == named.size_bytes and hashlib.sha256(data).hexdigest() == named.digest:
        return data
    try:
        found = record.decode(data)
    except StorageError as error:
        raise type(error)(f"{path.name}: {error}", **error.facts) from None
    raise CheckpointMismatch(
        f"{path.name} is save {found.generation} of attempt {found.number} of job {found.job}, and the ledger names "
        f"another one: save {named.generation} of attempt {named.number}"
    )
