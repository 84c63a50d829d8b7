"""Making and recognising the folder of an investigation (L:1.6): its folders, its catalogue, its manifest.

The engine's own manifest and ledger are made by the caller; they may stand here already.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path

from perenne.apps.evidence import catalogue, manifest, places, reference_store
from perenne.apps.evidence.identities import SPECIMEN_REQUESTED_AT, check_uuid
from perenne.apps.evidence.manifest import Investigation
from perenne.crashpoints import crash_point
from perenne.errors import StoreExists, StoreFailed, StoreForeign
from perenne.files import atomic

_FOLDERS = (
    places.RUNTIME,
    places.MAIL_ORIGINALS,
    places.IMAGE_ORIGINALS,
    places.MAIL_DERIVATIVES,
    places.IMAGE_DERIVATIVES,
)
_MANAGED = (
    places.CATALOGUE,
    f"{places.CATALOGUE}-journal",
    manifest.GENERIC,
    manifest.SPECIMEN,
    "core-snapshot.json",
    places.JOBS_SNAPSHOT,
    "correlation-snapshot.json",
    "planner-snapshot.json",
)
_MUST_BE_EMPTY = (
    places.MAIL_ORIGINALS,
    places.IMAGE_ORIGINALS,
    places.MAIL_DERIVATIVES,
    places.IMAGE_DERIVATIVES,
)


def create(
    root: Path,
    *,
    title: str,
    specimen: bool = False,
    investigation_id: str | None = None,
    created_at: str | None = None,
) -> None:
    """Make an empty investigation in `root`: folders 0700, files 0600; the manifest, written last, makes it one.

    Args: created_at: 20-character UTC instant; now, or the specimen's fixed instant, when left out.
    Raises:
        InvalidInput: title, id or instant do not fit.
        StoreExists: a file of an investigation is there already; nothing was touched.
        StoreForeign: a job store of the reference program is there; nothing was touched.
    Guarantees: on an error only what this call made is removed.
    """
    manifest.check_title(title)
    investigation = Investigation(
        check_uuid("investigation_id", investigation_id or str(uuid.uuid4())), title, specimen
    )
    refuse_present(root)
    made: list[Path] = []
    try:
        _make_folders(root, specimen, made)
        made.append(catalogue.create(root, investigation, created_at or _instant(specimen)))
        crash_point("create.catalogue_made")
        relative, content = manifest.spell(investigation)
        made.append(root / relative)
        atomic.write(root / relative, content, protocol="create")
    except BaseException:
        _remove(made)
        raise


def read(root: Path) -> Investigation:
    """The investigation in `root`, from its manifest alone.

    Raises:
        StoreMissing, StoreFailed: no manifest, or a damaged one.
        StoreForeign: another contract.
    """
    return manifest.read(root)


def refuse_present(root: Path) -> None:
    """Raises: StoreExists, StoreForeign: `root` is no folder, or files of an investigation are there already."""
    if os.path.lexists(root) and not root.is_dir():
        raise StoreExists(f"{root} exists and is no folder; give a new or empty folder", path=str(root))
    _refuse_reference_store(root)
    for relative in _MANAGED:
        if os.path.lexists(root / relative):
            raise StoreExists(
                f"{root / relative} exists, so {root} holds an investigation, or the rest of one whose creation was "
                "interrupted; nothing was touched, give another folder or move that file away",
                path=str(root / relative),
            )
    for relative in _MUST_BE_EMPTY:
        folder = places.folder_below(root, relative)
        if folder is not None and atomic.listed(folder):
            raise StoreExists(
                f"{folder} holds files already; nothing was touched, give another folder or move them away",
                path=str(folder),
            )


def _refuse_reference_store(root: Path) -> None:
    store = root / reference_store.PATH
    if os.path.lexists(store):
        raise StoreForeign(
            f"{store} is the job store of the reference program; nothing was touched, "
            f"take that investigation over with `perenne evidence adopt`, or use another folder",
            path=str(store),
        )


def _make_folders(root: Path, specimen: bool, made: list[Path]) -> None:
    if not root.exists():
        try:
            root.mkdir(0o700)
        except OSError as error:
            raise StoreFailed(
                f"the folder {root} cannot be made: {error.strerror}; make its parent", path=str(root)
            ) from error
        made.append(root)
        atomic.sync_folder(root.parent)
        crash_point("create.folder_made")
    for relative in (*_FOLDERS, *((places.SPECIMEN_INPUT,) if specimen else ())):
        made += [path for path in _chain(root, relative) if not path.exists()]
        places.make_folder_below(root, relative, "create.folder_made")


def _chain(root: Path, relative: str) -> list[Path]:
    parts = places.parts_of(relative)
    return [root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]


def _remove(made: list[Path]) -> None:
    for path in reversed(made):
        # A folder that somebody else has put something into meanwhile is no longer ours to remove.
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _instant(specimen: bool) -> str:
    return SPECIMEN_REQUESTED_AT if specimen else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
