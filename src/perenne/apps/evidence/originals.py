"""Importing files as originals: copied once, never changed, named by their content, all of a selection or none.

The write lock of the catalogue, held from the first look to the commit, stands in for an import lock of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from perenne.apps.evidence import catalogue, lookup, manifest, places, rows
from perenne.apps.evidence.identities import check_instant, evidence_id_of
from perenne.apps.evidence.recognition import Format, recognise
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, RecoveryRequired, StoreFailed, StoreMissing, TooLarge
from perenne.files import atomic, regular

FILE_LIMIT_BYTES = 4 << 20
SELECTION_LIMIT_FILES = 1000

_FOLDERS = (places.MAIL_ORIGINALS, places.IMAGE_ORIGINALS)
_STAGE = ".stage-import"
_OURS = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(?:eml|png|jpg)")


class Imported(msgspec.Struct, frozen=True):
    """One file of a selection as it stands in the investigation; `reused` when its content was there before."""

    evidence_id: str
    type: str
    mime_type: str | None
    original_name: str
    relative_path: str
    sha256: str
    size_bytes: int
    reused: bool


def import_files(
    root: Path, paths: Sequence[Path], *, imported_at: str, file_limit_bytes: int = FILE_LIMIT_BYTES
) -> list[Imported]:
    """Copy the files into the investigation, in the order given; same content is the same evidence.

    Args: imported_at: 20-character UTC instant.
    Raises:
        InvalidInput, TooLarge: a file is none of PNG, JPEG and .eml mail, or empty, too large, missing or not regular.
        RecoveryRequired: the content was imported before, and its original no longer verifies.
    Guarantees: on any error nothing of the selection is imported, unless the commit itself is in doubt (StoreFailed
        says to read back): then all of it stands or nothing, and importing again tells. After a crash all rows stand
        or none; a copy without a row is adopted by the next import of the same content, or removed by any other.
    """
    check_instant("imported_at", imported_at)
    _check_selection(paths)
    importing = _Importing(root, imported_at, file_limit_bytes)
    try:
        with catalogue.transaction(root, "import") as connection:
            _remove_stage_files(root)
            imported = [importing.take(connection, path) for path in paths]
            _remove_orphans(root, connection)
    except BaseException:
        _undo(root, importing.made)
        raise
    return imported


def find(root: Path, evidence_id: str) -> rows.Evidence:
    """The row of a piece of evidence; its file is not looked at.

    Raises:
        InvalidInput: this investigation has no such evidence.
    """
    with catalogue.reading(root) as connection:
        found = rows.evidence(connection, evidence_id)
    if found is None:
        raise InvalidInput(
            f"evidence_id: {evidence_id} is not in this investigation; import the file first",
            field="evidence_id",
            value=evidence_id,
        )
    return found


def read(root: Path, evidence_id: str) -> tuple[rows.Evidence, bytes]:
    """A piece of evidence and the bytes of its file, hashed now and equal to the row.

    Raises:
        InvalidInput: this investigation has no such evidence.
        RecoveryRequired: the file is not what was imported.
    """
    found = find(root, evidence_id)
    try:
        return found, lookup.examine_file(root, found, lookup.ORIGINAL_LIMIT_BYTES)
    except lookup.Incoherent as finding:
        raise RecoveryRequired(f"{finding}; restore the file before analysing it", evidence_id=evidence_id) from finding


def sweep(root: Path) -> list[Path]:
    """Remove what dead imports left: stage files, and copies named by their content that no row names.

    Returns: the paths removed. Files that an import did not make are left alone.
    """
    with catalogue.locked(root) as connection:
        return _remove_stage_files(root) + _remove_orphans(root, connection)


class _Importing:
    """One selection on its way: what it made so far, to be undone if a later file fails."""

    def __init__(self, root: Path, imported_at: str, file_limit_bytes: int) -> None:
        self.root = root
        self.imported_at = imported_at
        self.file_limit_bytes = file_limit_bytes
        self.investigation_id = manifest.read(root).id
        self.made: list[str] = []

    def take(self, connection: apsw.Connection, path: Path) -> Imported:
        content = self._read(path)
        kind = _recognised(path, content)
        sha256 = places.sha256_of(content)
        known = rows.evidence_of_content(connection, sha256, len(content))
        if known is not None:
            self._require_intact(known)
            return _imported(known, reused=True)
        evidence = self._evidence(path, content, sha256, kind)
        self._copy(evidence, content)
        rows.insert_evidence(connection, evidence)
        return _imported(evidence, reused=False)

    def _read(self, path: Path) -> bytes:
        content = regular.read(path, limit_bytes=self.file_limit_bytes)
        if not content:
            raise InvalidInput(f"{path} is empty; give a mail or a picture with at least one byte", path=str(path))
        return content

    def _require_intact(self, known: rows.Evidence) -> None:
        try:
            lookup.examine_file(self.root, known, lookup.ORIGINAL_LIMIT_BYTES)
        except lookup.Incoherent as finding:
            raise RecoveryRequired(
                f"this content was imported before as evidence {known.id}, but {finding}; restore that file first",
                evidence_id=known.id,
            ) from finding

    def _evidence(self, path: Path, content: bytes, sha256: str, kind: Format) -> rows.Evidence:
        evidence_id = evidence_id_of(self.investigation_id, sha256)
        return rows.Evidence(
            id=evidence_id,
            type=kind.type,
            # A name that is no UTF-8 is kept readable rather than refused; the bytes are what is evidence.
            original_name=os.fsencode(path.name).decode("utf-8", "backslashreplace"),
            relative_path=f"{kind.folder}/{evidence_id}{kind.extension}",
            size_bytes=len(content),
            sha256=sha256,
            mime_type=kind.mime_type,
            description=None,
            source=None,
            collected_at=self.imported_at,
            imported_at=self.imported_at,
        )

    def _copy(self, evidence: rows.Evidence, content: bytes) -> None:
        folder, _, name = evidence.relative_path.rpartition("/")
        final = places.make_folder_below(self.root, folder, "import.folder_made") / name
        if self._left_by_a_crash(evidence, content):
            return
        staged = final.with_name(f"{name}{_STAGE}")
        atomic.stage(staged, content, protocol="import")
        self.made.append(evidence.relative_path)
        atomic.promote(staged, final, protocol="import")

    def _left_by_a_crash(self, evidence: rows.Evidence, content: bytes) -> bool:
        with contextlib.suppress(StoreMissing, StoreFailed, TooLarge):
            return content == places.read_below(self.root, evidence.relative_path, limit_bytes=len(content))
        return False


def _check_selection(paths: Sequence[Path]) -> None:
    if not 0 < len(paths) <= SELECTION_LIMIT_FILES:
        raise InvalidInput(
            f"selection: {len(paths)} files; give 1 to {SELECTION_LIMIT_FILES} at once",
            field="selection",
            value=len(paths),
            limit=SELECTION_LIMIT_FILES,
        )


def _recognised(path: Path, content: bytes) -> Format:
    kind = recognise(path.name, content)
    if kind is None:
        raise InvalidInput(
            f"{path} begins with {content[:8]!r}, which is neither PNG nor JPEG nor the header of a mail named .eml; "
            "give one of these three",
            path=str(path),
        )
    return kind


def _imported(evidence: rows.Evidence, *, reused: bool) -> Imported:
    return Imported(
        evidence_id=evidence.id,
        type=evidence.type,
        mime_type=evidence.mime_type,
        original_name=evidence.original_name,
        relative_path=evidence.relative_path,
        sha256=evidence.sha256,
        size_bytes=evidence.size_bytes,
        reused=reused,
    )


def _remove_stage_files(root: Path) -> list[Path]:
    return [_removed(path) for path in _files(root) if path.name.endswith(_STAGE)]


def _remove_orphans(root: Path, connection: apsw.Connection) -> list[Path]:
    investigation_id = manifest.read(root).id
    return [
        _removed(path)
        for path in _files(root)
        if rows.evidence_at(connection, path.relative_to(root).as_posix()) is None
        and _is_made_by_import(root, path, investigation_id)
    ]


def _is_made_by_import(root: Path, path: Path, investigation_id: str) -> bool:
    """Only a copy whose name follows from its content is surely ours, and surely still whole where it came from."""
    name = _OURS.fullmatch(path.name)
    if name is None or path.is_symlink():
        return False
    try:
        content = places.read_below(root, path.relative_to(root).as_posix(), limit_bytes=lookup.ORIGINAL_LIMIT_BYTES)
    except (StoreMissing, StoreFailed, TooLarge):
        return False
    return evidence_id_of(investigation_id, places.sha256_of(content)) == name[1]


def _files(root: Path) -> list[Path]:
    folders = [places.folder_below(root, relative) for relative in _FOLDERS]
    return [path for folder in folders if folder is not None for path in atomic.listed(folder)]


def _removed(path: Path) -> Path:
    try:
        path.unlink()
    except OSError as error:
        raise StoreFailed(
            f"{path}, left by a dead import, cannot be removed: {error.strerror}", path=str(path)
        ) from error
    crash_point("import.leftover_removed")
    return path


def _undo(root: Path, made: list[str]) -> None:
    """Remove the copies of a failed import; after a commit in doubt only a fresh look says that no row names them."""
    if not made:
        return
    with contextlib.suppress(Exception), catalogue.locked(root) as connection:
        for relative in made:
            staged = root / f"{relative}{_STAGE}"
            ours = staged if os.path.lexists(staged) else root / relative
            if rows.evidence_at(connection, relative) is None and os.path.lexists(ours):
                ours.unlink()
                crash_point("import.undone")
