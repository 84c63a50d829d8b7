"""A workspace as one file of lines, and back: export of one state, import into a workspace that is new.

What lives here: the file, its digest, its line numbers. What does not: what a line may hold (`store.records`), rows
(`store.dump`, `store.adoption`), copies of the database itself (`runtime.backup`).
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, StoreBusy, StoreExists, TooLarge
from perenne.files import atomic, fresh
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.runtime.clock import Clock
from perenne.store import dump, records
from perenne.store.adoption import Adopted, Adoption
from perenne.store.copies import Copies
from perenne.store.driver import Driver, Transaction

Progress = Callable[[int, int], object]  # records done, records in all


class Exported(msgspec.Struct, frozen=True):
    """What stands in the file."""

    counts: records.Counts
    size_bytes: int
    sha256: str


def export(
    workspace: Workspace, path: Path, *, copies: Copies, clock: Clock, progress: Progress | None = None
) -> Exported:
    """Write the whole workspace, as it stands at one moment, to a new file of JSON lines; work goes on beside it.

    Contract `perenne.workspace.export.v1`: a header with counts, one line a row, a footer with the SHA-256 of all bytes
    before it. Running attempts stand in it as running: an import ends them. Artefacts and checkpoints are not in it.
    Args: progress: told how many of how many records are written, now and then.
    Raises: StoreExists: the file is there; StoreBusy: another export runs; StorageError, DiskLow: nothing has the name.
    Guarantees: after a crash the file is absent or whole. Memory does not grow with the workspace.
    """
    path = path.absolute()
    fresh.refuse_taken(path)
    # Read from a private copy: a view of the ledger itself would keep its WAL growing as long as the writing takes.
    with _copied(workspace, copies) as copy, fresh.writing(path, protocol="export") as file, copies.looking(copy) as tx:
        return _write(tx, file, dump.Source(workspace.name, workspace.app), clock.now(), progress)


def _write(tx: Transaction, file: fresh.Writing, source: dump.Source, now: int, progress: Progress | None) -> Exported:
    head = dump.header(tx, source, now=now)
    total = sum(msgspec.structs.astuple(head.counts))
    file.write(records.encode(head))
    for done, record in enumerate(dump.body(tx), 1):
        file.write(records.encode(record))
        if progress is not None and done % dump.PAGE_ROWS == 0:
            progress(done, total)
    sha256 = file.sha256
    file.write(records.encode(records.Footer(sha256, head.counts)))
    return Exported(head.counts, file.size_bytes, sha256)


@contextlib.contextmanager
def _copied(workspace: Workspace, copies: Copies) -> Iterator[Path]:
    """A copy of the ledger for one export at a time; what a killed one left is removed first."""
    lock = Lock.take(workspace.own_folder / "export.lock", text="an export")
    if lock is None:
        raise StoreBusy(f"export: another one runs in {workspace.root}; wait for it, then try again")
    with lock:
        _remove_copies(workspace)
        copy = workspace.own_folder / f"export-{uuid.uuid4().hex}.sqlite"
        try:
            copies.copy(workspace.ledger, copy, allowed=workspace.allow_filesystems)
            yield copy
        finally:
            with contextlib.suppress(OSError):  # the next export removes it
                copy.unlink()


def _remove_copies(workspace: Workspace) -> None:
    for left in atomic.listed(workspace.own_folder, "export-*.sqlite*"):
        with atomic.explained(left, "removed"):
            left.unlink(missing_ok=True)
        crash_point("export.leftover_removed")


class Imported(msgspec.Struct, frozen=True):
    """What came in; `reused`: this very file was imported here before, and nothing was done."""

    adopted: Adopted | None
    sha256: str
    reused: bool = False


def import_(path: Path, workspace: Workspace, driver: Driver, *, clock: Clock, actor: str) -> Imported:
    """Put an exported workspace into a new one of the same app, in one transaction; the same file again does nothing.

    Jobs, attempts and history keep their ids, places and times; the epoch grows, so that no token of the old place is
    worth anything here. What was running there is interrupted here: back in the queue, where it is looked up before it
    runs, or RECOVERY_REQUIRED when it would otherwise end without a look.
    Raises: StoreExists: this workspace has jobs or a history. InvalidInput, TooLarge: names the line and what is wrong
    with it: a field, a bound, the order, a count, the digest, a missing end. Nothing was imported then.
    Guarantees: killed at any point, all of it is there or nothing.
    """
    path = path.absolute()
    try:
        imported = driver.write(
            partial(_adopt, path=path, app=workspace.app, now=clock.now(), actor=actor), recheck=stands
        )
    except StoreExists:
        known = _imported_before(path, driver)
        if known is None:
            raise
        return known
    crash_point("import.committed")
    return imported


def _adopt(tx: Transaction, *, path: Path, app: str, now: int, actor: str) -> Imported:
    """Reads a file while it holds the write lock, as no other transaction does: nobody works in a new workspace."""
    adoption = Adoption(tx, app=app, now=now, actor=actor)
    reader = _Reader(path)
    for record in reader:
        with reader.placed():
            adoption.take(record)
    with reader.placed():
        if not adoption.complete:
            raise InvalidInput("it is the last one, and no footer: the file was cut after it")
        adopted = adoption.finish()
    crash_point("import.written")
    return Imported(adopted, reader.sha256)


def stands(tx: Transaction, imported: Imported) -> bool:
    """Whether the history of this ledger tells of the import of this very file."""
    return tx.one("import_line", sentence=f"%(sha256 {imported.sha256})") is not None


def _imported_before(path: Path, driver: Driver) -> Imported | None:
    """The answer for a file whose import is in the history of this workspace; it must still be whole."""
    reader = _Reader(path)
    for _ in reader:
        pass
    before = Imported(None, reader.sha256, reused=True)
    return before if driver.read(partial(stands, imported=before)) else None


class _Reader:
    """The records of one file in order, and where it stands; the digest of all before the footer is checked."""

    def __init__(self, path: Path) -> None:
        self._path, self._digest = path, hashlib.sha256()
        self._number = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[records.Line]:
        for line in fresh.lines(self._path, limit_bytes=records.LINE_BYTES + 1):
            self._number += 1
            with self.placed():
                record = records.decode(line)
                if isinstance(record, records.Footer):
                    self._check(record)
                else:
                    self._digest.update(line)
            yield record
        if self._number == 0:
            raise InvalidInput(
                f"export {self._path}: it is empty; give a file that `export` wrote", path=str(self._path)
            )

    def _check(self, footer: records.Footer) -> None:
        if footer.sha256 != self.sha256:
            raise InvalidInput(
                f"sha256: the footer says {footer.sha256}, the lines before it have {self.sha256}: "
                f"the file was changed after it was written"
            )

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """A refusal of the record at hand names the file and the line."""
        try:
            yield
        except (InvalidInput, TooLarge) as error:
            raise type(error)(
                f"export {self._path}, line {self._number}: {error}; nothing was imported, export the workspace again",
                path=str(self._path),
                line=self._number,
                finding=str(error),
            ) from None
