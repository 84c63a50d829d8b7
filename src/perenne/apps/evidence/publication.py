"""Publishing one analysis into the catalogue, and clearing what a dead attempt left of it (L:P-1, L:L-1, EV-7).

What was published is judged in `lookup.py`. The write lock of the catalogue, held from the first look to the commit,
orders publishers; each durable call has a crash point behind it.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path

import apsw

from perenne.apps.evidence import catalogue, lookup, places, rows
from perenne.apps.evidence.findings import Derivative, Observation, Source
from perenne.apps.evidence.identities import Identity, check_identity, check_sha256, check_uuid
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, RecoveryRequired, StoreFailed, TooLarge
from perenne.files import atomic


def publish(root: Path, identity: Identity, source: Source, derivative: Derivative) -> None:
    """Make a derivative visible: its artefact file, then its rows in one transaction.

    Raises:
        InvalidInput, TooLarge: a value does not fit.
        RecoveryRequired: this identity is published with other content, or the original changed since it was read.
        DiskLow, StorageError: nothing of this attempt is left, unless the commit itself is in doubt: then the file
            stays, and a lookup tells.

    Guarantees: publishing the same again changes nothing. After a crash at any instant the catalogue holds all rows or
        none; a file without rows is replaced by the next publish, or removed by `discard`.
    """
    _check(identity, source, derivative)
    staged: list[Path] = []
    try:
        with catalogue.transaction(root, "publish") as connection:
            if lookup.stands(connection, identity):
                _require_same(root, connection, identity, source, derivative)
                return
            _require_original(root, connection, source)
            relative = f"{derivative.folder}/{identity.derivative_id}.json"
            _require_free(connection, relative)
            _write_artefact(root, identity, derivative, relative, staged)
            _write_rows(connection, identity, source, derivative, relative)
    except BaseException:
        _undo(root, identity, staged)
        raise


def discard(root: Path, identity: Identity) -> list[Path]:
    """Remove what a dead attempt of this identity left: its stage file, and its artefact unless a row names it.

    Returns: the paths removed.
    Guarantees: twice is once, and after a crash the rest is removed by the next call.
    """
    check_identity(identity)
    removed: list[Path] = []
    with catalogue.locked(root) as connection:
        published = lookup.stands(connection, identity)
        for folder in _derivative_folders(root):
            artefact = folder / f"{identity.derivative_id}.json"
            leftovers = [stage_path(artefact, identity), artefact.with_name(f"{artefact.name}.stage")]
            if not published and rows.evidence_at(connection, artefact.relative_to(root).as_posix()) is None:
                leftovers.append(artefact)
            removed += _remove_all(folder, [path for path in leftovers if _is_there(path)])
    return removed


def stage_path(artefact: Path, identity: Identity) -> Path:
    """Where the artefact of this identity is written before it gets its name (L:L-1)."""
    return artefact.with_name(f"{artefact.name}.stage-{identity.extraction_id}")


def _check(identity: Identity, source: Source, derivative: Derivative) -> None:
    check_identity(identity)
    check_uuid("source.evidence_id", source.evidence_id)
    check_sha256("source.sha256", source.sha256)
    if "/".join(places.parts_of(derivative.folder)[:-1]) != places.DERIVATIVES:
        raise InvalidInput(
            f"folder: {derivative.folder!r} is no folder directly in {places.DERIVATIVES}; give one",
            field="folder",
            value=derivative.folder,
        )
    if len(derivative.content) > lookup.ARTEFACT_LIMIT_BYTES:
        raise TooLarge(
            f"content: an artefact of {len(derivative.content)} bytes is larger than the "
            f"{lookup.ARTEFACT_LIMIT_BYTES} that may be published; analyse with smaller limits",
            field="content",
            value=len(derivative.content),
            limit=lookup.ARTEFACT_LIMIT_BYTES,
        )
    _check_observations(derivative.observations)


def _check_observations(observations: tuple[Observation, ...]) -> None:
    counted = Counter(
        (item.type, item.value_normalized, item.role, item.source_header, item.occurrence, item.provenance_kind)
        for item in observations
    )
    for key, count in counted.items():
        if count > 1:
            raise InvalidInput(
                f"observations: {key} stands {count} times; number the repetitions by their occurrence",
                field="observations",
                value=key,
            )


def _require_same(
    root: Path, connection: apsw.Connection, identity: Identity, source: Source, derivative: Derivative
) -> None:
    def check(content: bytes) -> tuple[Observation, ...]:
        if content != derivative.content:
            raise ValueError("another artefact was published under it")
        return derivative.observations

    try:
        lookup.examine(root, connection, identity, source.evidence_id, derivative.tool_id, check)
    except lookup.Incoherent as finding:
        raise RecoveryRequired(
            f"extraction {identity.extraction_id} is already published, and not as given: {finding}; "
            "nothing was changed, look at both and resolve the job",
            extraction_id=identity.extraction_id,
        ) from finding


def _require_original(root: Path, connection: apsw.Connection, source: Source) -> None:
    """The analysis must speak of the bytes that lie in the investigation now (L:T-25)."""
    original = rows.evidence(connection, source.evidence_id)
    if original is None:
        raise InvalidInput(
            f"source.evidence_id: {source.evidence_id} is not in this investigation; import the file first",
            field="source.evidence_id",
            value=source.evidence_id,
        )
    try:
        lookup.examine_file(root, original, lookup.ORIGINAL_LIMIT_BYTES)
    except lookup.Incoherent as finding:
        raise RecoveryRequired(
            f"{finding}; restore the original before publishing", evidence_id=original.id
        ) from finding
    if (source.sha256, source.size_bytes) != (original.sha256, original.size_bytes):
        raise RecoveryRequired(
            f"the analysis read {source.size_bytes} bytes with SHA-256 {source.sha256}, but evidence {original.id} has "
            f"{original.size_bytes} with {original.sha256}; analyse it again",
            evidence_id=original.id,
        )


def _require_free(connection: apsw.Connection, relative: str) -> None:
    other = rows.evidence_at(connection, relative)
    if other is not None:
        raise RecoveryRequired(
            f"{relative} belongs to evidence {other.id}; nothing was changed, look at both and resolve the job",
            evidence_id=other.id,
        )


def _write_artefact(root: Path, identity: Identity, derivative: Derivative, relative: str, staged: list[Path]) -> None:
    folder = places.make_folder_below(root, derivative.folder, "publish.folder_made")
    artefact = folder / relative.rpartition("/")[2]
    stage = stage_path(artefact, identity)
    if _is_there(stage):
        _remove(stage)
        crash_point("publish.leftover_removed")
    atomic.stage(stage, derivative.content, protocol="publish")
    staged.append(stage)
    atomic.promote(stage, artefact, protocol="publish")


def _write_rows(
    connection: apsw.Connection, identity: Identity, source: Source, derivative: Derivative, relative: str
) -> None:
    rows.insert_evidence(
        connection,
        rows.Evidence(
            id=identity.derivative_id,
            type="text",
            original_name=relative.rpartition("/")[2],
            relative_path=relative,
            size_bytes=len(derivative.content),
            sha256=places.sha256_of(derivative.content),
            mime_type="application/json",
            description=derivative.description,
            source=derivative.tool_id,
            collected_at=identity.requested_at,
            imported_at=identity.requested_at,
        ),
    )
    rows.insert_extraction(
        connection,
        rows.Extraction(
            id=identity.extraction_id,
            evidence_id=identity.derivative_id,
            source_kind="evidence",
            source_id=source.evidence_id,
            tool_id=derivative.tool_id,
            created_at=identity.requested_at,
        ),
    )
    rows.insert_observations(connection, identity, source, derivative)


def _undo(root: Path, identity: Identity, staged: list[Path]) -> None:
    """Remove the file of a failed attempt; after a commit in doubt only a fresh look says that no row names it."""
    with contextlib.suppress(Exception):
        for stage in staged:
            with catalogue.locked(root) as connection:
                artefact = stage.with_name(f"{identity.derivative_id}.json")
                ours = stage if _is_there(stage) else artefact
                if not lookup.stands(connection, identity) and _is_there(ours):
                    _remove(ours)
                    crash_point("publish.undone")


def _derivative_folders(root: Path) -> list[Path]:
    above = places.folder_below(root, places.DERIVATIVES)
    if above is None:
        return []
    return [folder for folder in atomic.listed(above) if folder.is_dir() and not folder.is_symlink()]


def _remove_all(folder: Path, leftovers: list[Path]) -> list[Path]:
    for path in leftovers:
        _remove(path)
        crash_point("recover.leftover_removed")
    if leftovers:
        atomic.sync_folder(folder)
        crash_point("recover.folder_synced")
    return leftovers


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise StoreFailed(
            f"{path}, left by a dead attempt, cannot be removed: {error.strerror}; remove it and run again",
            path=str(path),
        ) from error
