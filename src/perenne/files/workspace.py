"""A workspace: the folder, the manifest that names it, and where its files lie.

What lives here: names and the manifest. What does not: what stands in the files, and who may open them.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perenne.errors import InvalidInput, StoreExists, StoreForeign, StoreMissing
from perenne.files import atomic, foreign, regular

MANIFEST = "workspace.toml"
MANIFEST_BYTES = 64 * 1024
_FOLDERS = ("owners", "children", "checkpoints", "wake", "stage", "logs")


@dataclass(frozen=True)
class Workspace:
    """One folder of work.

    Args: id: UUID, also in the ledger. app: whose jobs these are. specimen: made for trials, crash points may be armed.
    runtime: where the engine keeps its own files, below the root. allow_filesystems: unsafe ones that are accepted.
    retention, governor, artefacts: these tables as they stand in the manifest, unchecked; None: there is none.
    """

    root: Path
    id: str
    name: str
    app: str
    specimen: bool = False
    runtime: str = ".perenne"
    allow_filesystems: tuple[str, ...] = ()
    retention: Mapping[str, object] | None = field(default=None, hash=False)
    governor: Mapping[str, object] | None = field(default=None, hash=False)
    artefacts: Mapping[str, object] | None = field(default=None, hash=False)

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST

    @property
    def own_folder(self) -> Path:
        return self.root / self.runtime

    @property
    def ledger(self) -> Path:
        return self.own_folder / "ledger.sqlite"

    @property
    def worker_lock(self) -> Path:
        return self.own_folder / "worker.lock"

    @property
    def snapshot_lock(self) -> Path:
        return self.own_folder / "snapshot.lock"

    @property
    def owners_folder(self) -> Path:
        return self.own_folder / "owners"

    def lock_of(self, owner_id: str) -> Path:
        return self.owners_folder / f"{owner_id}.lock"

    @property
    def retention_lock(self) -> Path:
        return self.own_folder / "retention.lock"

    @property
    def children_folder(self) -> Path:
        return self.own_folder / "children"

    def lock_of_child(self, attempt: str) -> Path:
        """Held by the child that runs this attempt, and by whatever it forked."""
        return self.children_folder / f"{attempt}.lock"

    @property
    def checkpoints_folder(self) -> Path:
        return self.own_folder / "checkpoints"

    @property
    def artefacts_folder(self) -> Path:
        """Made with the first artefact."""
        return self.own_folder / "artefacts"

    @property
    def wake_folder(self) -> Path:
        return self.own_folder / "wake"

    @property
    def stage_folder(self) -> Path:
        return self.own_folder / "stage"

    def log_of(self, job_id: str) -> Path:
        return self.own_folder / "logs" / f"{job_id}.jsonl"

    def make_folders(self) -> None:
        """Every folder the engine uses, 0700, durable."""
        for name in _FOLDERS:
            atomic.make_folder(self.own_folder / name)

    def remove(self) -> None:
        """Take back what the making of a workspace wrote, the manifest first; what cannot be removed stays."""
        ledger = [Path(f"{self.ledger}{end}") for end in ("", "-wal", "-shm")]
        for file in (self.manifest, *ledger):
            with contextlib.suppress(OSError):
                file.unlink()
        for folder in (*(self.own_folder / name for name in _FOLDERS), self.own_folder):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def write_manifest(self) -> None:
        """The manifest, durable; the last step of making a workspace.

        Raises: StoreExists: there is one already.
        """
        refuse_existing(self.root)
        atomic.write(self.manifest, _manifest_text(self).encode(), protocol="create")


def refuse_existing(root: Path) -> None:
    """Raises: StoreExists: it is a workspace. StoreForeign: another program's. InvalidInput: it is not a folder."""
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"workspace: {root} is not a folder; give a folder, it may be new", field="workspace")
    if (root / MANIFEST).exists():
        raise StoreExists(
            f"workspace: {root} already is one ({MANIFEST}); open it, or choose another folder", path=str(root)
        )
    foreign.refuse_project(root)


def read(root: Path) -> Workspace:
    """The workspace in this folder.

    Raises: StoreMissing: no manifest. InvalidInput: not a folder. StoreForeign: the manifest cannot be understood, or
    the folder is another program's project.
    """
    root = root.absolute()
    if root.exists() and not root.is_dir():
        raise InvalidInput(f"workspace: {root} is not a folder; give the folder of a workspace", field="workspace")
    if not (root / MANIFEST).is_file():
        foreign.refuse_project(root)
        raise StoreMissing(f"workspace: {root} holds no {MANIFEST}; create the workspace first", path=str(root))
    text = regular.read(root / MANIFEST, limit_bytes=MANIFEST_BYTES)
    try:
        return _parsed(root, tomllib.loads(text.decode()))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreForeign(f"{root / MANIFEST}: {error}; restore the manifest from a copy", path=str(root)) from None


def _parsed(root: Path, values: dict[str, object]) -> Workspace:
    known = {"id": str, "name": str, "app": str, "specimen": bool, "runtime": str, "allow_filesystems": list}
    known["retention"] = known["governor"] = known["artefacts"] = dict  # what is in it is for who carries it out to say
    known["settings"] = dict  # what is in it is for `perenne.config` to say
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"{key}: unknown; known are {', '.join(known)}")
        if not isinstance(value, known[key]):
            raise ValueError(f"{key}: {value!r} is not a {known[key].__name__}")
    runtime = str(values.get("runtime", ".perenne"))
    if Path(runtime).is_absolute() or ".." in Path(runtime).parts:
        raise ValueError(f"runtime: {runtime!r} leaves the workspace")
    allowed = values.get("allow_filesystems", [])
    retention, governor, artefacts = (values.get(table) for table in ("retention", "governor", "artefacts"))
    assert isinstance(allowed, list)
    assert retention is None or isinstance(retention, dict)
    assert governor is None or isinstance(governor, dict)
    assert artefacts is None or isinstance(artefacts, dict)
    return Workspace(
        root=root,
        id=str(values["id"]),
        name=str(values["name"]),
        app=str(values["app"]),
        specimen=bool(values.get("specimen", False)),
        runtime=runtime,
        allow_filesystems=tuple(map(str, allowed)),
        retention=retention,
        governor=governor,
        artefacts=artefacts,
    )


def _manifest_text(workspace: Workspace) -> str:
    """TOML by hand: a JSON string without escapes beyond ASCII's is a TOML string."""
    values = {
        "id": workspace.id,
        "name": workspace.name,
        "app": workspace.app,
        "specimen": workspace.specimen,
        "runtime": workspace.runtime,
        "allow_filesystems": list(workspace.allow_filesystems),
    }
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join(["# A Perenne workspace. Its id also stands in the ledger: do not edit it.", *lines, ""])
