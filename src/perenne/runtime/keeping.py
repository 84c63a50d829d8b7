"""How an attempt keeps a file: staged in its private folder, proved, linked under its digest, then named in the ledger.

What lives here: the order of these steps, for a handler in the worker's process and for one in a child, which stages by
itself and lets its worker do the rest; and the sweep of bytes that no job names. What does not: bytes, rows, bounds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from perenne.core import artefact
from perenne.core.artefact import Artefact
from perenne.core.job import Token
from perenne.crashpoints import crash_point
from perenne.errors import OutcomeUnknown, StorageError, StoreFailed
from perenne.files import fresh
from perenne.files.artefacts import PIECE_BYTES, Staged, Store, prove, stage
from perenne.files.artefacts import Content as Content
from perenne.files.workspace import Workspace
from perenne.runtime import artefact_rule
from perenne.store.artefacts import Artefacts
from perenne.store.space import Gauge

STEP_FILES = 500


class Keeps(Protocol):
    """Whoever gives a staged file its lasting name, and names it in the ledger."""

    def commit(self, staged: Staged, wanted: Artefact) -> Artefact:
        """The artefact as it stands then. Raises: as `Keeping.commit`."""


class Keeping:
    """The artefacts of one attempt, where the ledger is at hand."""

    def __init__(self, workspace: Workspace, artefacts: Artefacts, token: Token) -> None:
        self._workspace, self._artefacts, self._token = workspace, artefacts, token

    def commit(self, staged: Staged, wanted: Artefact) -> Artefact:
        """Prove the staged file, link it, and name it under the token; the file is removed from the stage.

        Raises: StaleToken, ReportConflict, TooLarge, StorageError, DiskLow: nothing is named, and what was linked is
        removed.
        """
        store = Store(self._workspace.artefacts_folder)
        prove(staged)
        with store.locked():
            new = store.link(staged)
            try:
                kept = self._artefacts.add(self._token, wanted, artefact_rule.of(self._workspace))
            except OutcomeUnknown:
                raise  # the ledger may name it
            except BaseException:
                if new:
                    _remove_unnamed(store, self._artefacts, [staged.digest])
                raise
        return kept


class RemoteKeeping:
    """The artefacts of an attempt in a child: its worker names them."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def commit(self, staged: Staged, wanted: Artefact) -> Artefact:
        return msgspec.convert(self._ask("artefact", staged.path.name, wanted), Artefact)


def keep(
    keeps: Keeps, workspace: Workspace, stage_folder: Callable[[], Path], wanted: Artefact, content: Content
) -> Artefact:
    """Stage the content and have it named. Args: wanted: what is known before anything was read.

    Raises: InvalidInput, TooLarge, DiskLow: nothing was read; and as `stage` and `commit`.
    Guarantees: no stage file is left, but by a crash, and then it goes with the attempt's private folder.
    """
    artefact.check(wanted.name, wanted.media_type)
    if (low := Gauge(workspace.own_folder).low()) is not None:
        raise low
    room = artefact_rule.of(workspace)
    staged = stage(stage_folder(), content, lambda size_bytes: room.check(wanted.name, size_bytes))
    try:
        return keeps.commit(staged, msgspec.structs.replace(wanted, size_bytes=staged.size_bytes, digest=staged.digest))
    finally:
        with contextlib.suppress(OSError):
            staged.path.unlink(missing_ok=True)
            crash_point("artefact.leftover_removed")


def write_out(workspace: Workspace, kept: Artefact, path: Path) -> None:
    """Write the bytes of an artefact to a new file, which appears once they are proved.

    Raises: StoreExists, DiskLow, NotDurable; StoreFailed: also when the bytes are missing or damaged.
    """
    with (
        Store(workspace.artefacts_folder).open(kept.digest, kept.size_bytes) as file,
        fresh.writing(path.absolute(), protocol="export") as written,
    ):
        while piece := file.read(PIECE_BYTES):
            written.write(piece)
        if written.sha256 != kept.digest:
            raise StoreFailed(f"artefact {kept.digest}: its bytes are damaged; restore them from a copy")


def sweep(workspace: Workspace, artefacts: Artefacts) -> None:
    """Remove the bytes that no job names, a few at a time under the lock; what cannot be removed now stays.

    Raises: StorageError: the ledger or the folder cannot be read.
    """
    store = Store(workspace.artefacts_folder)
    found = list(store.digests())
    for start in range(0, len(found), STEP_FILES):
        # Asked without the lock first: mostly everything has a name, and nobody has to wait.
        unnamed = artefacts.unnamed(found[start : start + STEP_FILES])
        if unnamed:
            with store.locked():
                _remove_unnamed(store, artefacts, unnamed)


def _remove_unnamed(store: Store, artefacts: Artefacts, digests: list[str]) -> None:
    with contextlib.suppress(StorageError):
        for digest in artefacts.unnamed(digests):
            store.remove(digest)
