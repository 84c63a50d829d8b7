"""Making and opening a workspace of Evidence: the engine's part and the investigation's, as one.

Both carry the same UUID, and neither is opened beside a job store of the reference program that was not adopted (EV-2).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

import perenne
from perenne.apps.evidence import adopted, app, catalogue, investigation, manifest, originals, places
from perenne.apps.evidence.identities import SPECIMEN_REQUESTED_AT
from perenne.apps.evidence.images.specimen import specimen_picture
from perenne.apps.evidence.mail_headers.specimen import specimen_mail
from perenne.errors import InvalidInput, StoreForeign
from perenne.files import atomic

SPECIMEN_TITLE = "SPECIMEN"
_SPECIMEN_FILES = {"specimen.eml": specimen_mail, "specimen.png": specimen_picture}


class Between(click.IntRange):
    """A whole number within limits; the refusal names both."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r}, the limit is {self.min} to {self.max}; give a whole number in it", param, ctx)


class Folder(click.Path):
    """A path that is not empty: an empty one would mean the current folder, which a forgotten variable never means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("'' is empty; give the folder, or leave the option out for the current one", param, ctx)
        return super().convert(value, param, ctx)


in_workspace = click.option(
    "--workspace",
    type=Folder(path_type=Path),
    default=".",
    metavar="DIR",
    help="Folder of the investigation; the current one when left out.",
)
new_workspace = click.option(
    "--workspace", type=Folder(path_type=Path), required=True, metavar="DIR", help="A new or empty folder."
)

# What a workspace consists of, the file that makes it one first: without it the rest is only in the way.
_OWN_FILES = (
    "workspace.toml",
    manifest.GENERIC,
    manifest.SPECIMEN,
    places.CATALOGUE,
    *(f"{places.RUNTIME}/{name}" for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")),
)
_OWN_FOLDERS = (
    *(f"{places.RUNTIME}/{name}" for name in ("wake", "stage", "logs")),
    places.MAIL_ORIGINALS,
    places.IMAGE_ORIGINALS,
    places.MAIL_DERIVATIVES,
    places.IMAGE_DERIVATIVES,
    places.SPECIMEN_INPUT,
)


@contextmanager
def opened(root: Path, access: Literal["read", "write", "work"]) -> Iterator[perenne.Engine]:
    """The engine of an investigation.

    Raises:
        StoreForeign: a store of the reference program lies there that was not adopted, or has changed since; or
        manifest and workspace do not belong together;
        and what `perenne.open` raises.
    """
    adopted.refuse_unadopted(root)
    if access != "read":
        _refuse_without_catalogue(root)
    with perenne.open(root, app, access=access) as engine:
        held = investigation.read(root)
        if held.id != engine.workspace.id:
            raise StoreForeign(
                f"{root}: workspace.toml says {engine.workspace.id}, the manifest of the investigation {held.id}; "
                "put the file back that belongs here",
                path=str(root),
            )
        yield engine


def create(root: Path, *, title: str, queue_limit: int = 128) -> str:
    """Make `root` an empty investigation; gives its UUID.

    Raises: InvalidInput, StoreExists, StoreForeign, UnsafeFilesystem, StorageError.
    Guarantees: on an error what was made is removed again.
    """
    with _made(root, title, specimen=False, queue_limit=queue_limit) as id:
        return id


def create_specimen(root: Path) -> str:
    """Make `root` a synthetic investigation with one mail and one picture, both invented here; gives its UUID.

    Raises, Guarantees: as `create`.
    """
    with _made(root, SPECIMEN_TITLE, specimen=True, queue_limit=128) as id:
        inputs = [root / places.SPECIMEN_INPUT / name for name in _SPECIMEN_FILES]
        originals.import_files(root, inputs, imported_at=SPECIMEN_REQUESTED_AT)
        return id


@contextmanager
def _made(root: Path, title: str, *, specimen: bool, queue_limit: int) -> Iterator[str]:
    manifest.check_title(title)
    _refuse_no_folder(root)
    investigation.refuse_present(root)
    stood = root.exists()
    bounded = replace(app, queues=dict.fromkeys(app.queues, queue_limit))
    id = perenne.create(root, bounded, name=title, specimen=specimen).id
    try:
        if specimen:
            _write_inputs(root)  # before the manifest: what a crash leaves of them then belongs to no workspace
        investigation.create(root, title=title, specimen=specimen, investigation_id=id)
        yield id
    except BaseException:
        _remove(root, stood)
        raise


def _refuse_without_catalogue(root: Path) -> None:
    """Without its catalogue every job would be in doubt; asked first, so that a refused worker leaves not even a lock.

    Raises: StoreMissing, StoreForeign, SchemaTooNew, SchemaTooOld, StoreFailed.
    """
    if (root / "workspace.toml").is_file():
        with catalogue.reading(root):
            return


def _refuse_no_folder(root: Path) -> None:
    standing = next(path for path in (root.absolute(), *root.absolute().parents) if os.path.lexists(path))
    if not standing.is_dir():
        raise InvalidInput(
            f"workspace: {standing} exists and is no folder; give a new or empty folder",
            field="workspace",
            value=str(root),
        )


def _write_inputs(root: Path) -> None:
    folder = places.make_folder_below(root, places.SPECIMEN_INPUT, "create.folder_made")
    for name, content_of in _SPECIMEN_FILES.items():
        atomic.write(folder / name, content_of(), protocol="create")


def _remove(root: Path, stood: bool) -> None:
    """Everything that making a workspace makes; the ledger's creation proved that nobody else makes one here."""
    for name in _OWN_FILES:
        with contextlib.suppress(OSError):
            (root / name).unlink()
    for name in _OWN_FOLDERS:
        shutil.rmtree(root / name, ignore_errors=True)
    folders = {folder for name in (*_OWN_FILES, *_OWN_FOLDERS) for folder in (root / name).parents}
    ours = [folder for folder in folders if folder.is_relative_to(root) and (folder != root or not stood)]
    for folder in sorted(ours, key=lambda path: -len(path.parts)):
        with contextlib.suppress(OSError):
            folder.rmdir()
