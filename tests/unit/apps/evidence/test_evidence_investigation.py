"""Making and recognising an investigation: all or nothing, private, bound to its manifest."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from perenne.apps.evidence import catalogue, investigation, manifest, places
from perenne.errors import InvalidInput, StoreExists, StoreFailed, StoreForeign, StoreMissing

ID = "0b7e5d0e-9a86-4a55-9d0c-5f0c5ee0a001"


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
    }


def test_layout_is_private(tmp_path: Path) -> None:
    """Whatever the umask, folders are 0700 and files 0600, at the places of L:1.6."""
    root = tmp_path / "case"
    before = os.umask(0)
    try:
        investigation.create(root, title="Case", investigation_id=ID)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    for relative in (
        places.CATALOGUE,
        ".labfy/runtime/workspace.json",
        places.MAIL_ORIGINALS,
        places.IMAGE_ORIGINALS,
        places.MAIL_DERIVATIVES,
        places.IMAGE_DERIVATIVES,
    ):
        assert (root / relative).exists()


def test_generic_manifest(tmp_path: Path) -> None:
    """A generic investigation is read back as created, from the contract of the reference."""
    investigation.create(tmp_path, title="Überfall „A“", investigation_id=ID)
    assert investigation.read(tmp_path) == investigation.Investigation(ID, "Überfall „A“", False)
    written = json.loads((tmp_path / ".labfy/runtime/workspace.json").read_bytes())
    assert written["contract"] == "labfy.local_workspace.v1"
    assert not (tmp_path / ".labfy/runtime/specimen.json").exists()


def test_specimen_manifest(tmp_path: Path) -> None:
    """A specimen says synthetic: true and names its snapshot and its contract."""
    investigation.create(tmp_path, title="SPECIMEN", specimen=True, investigation_id=ID)
    assert investigation.read(tmp_path).specimen
    written = json.loads((tmp_path / ".labfy/runtime/specimen.json").read_bytes())
    assert written["contract"] == "labfy.local_jobs.specimen.v1"
    assert written["synthetic"] is True
    assert written["snapshot_file"] == "core-snapshot.json"
    assert written["snapshot_contract"] == "labfy.web_graph.snapshot.v3"
    assert (tmp_path / "SPECIMEN_INPUT").is_dir()


def test_id_is_made_when_none_is_given(tmp_path: Path) -> None:
    """Two investigations created without an id have two ids."""
    ids = set()
    for name in ("a", "b"):
        investigation.create(tmp_path / name, title="T")
        ids.add(investigation.read(tmp_path / name).id)
    assert len(ids) == 2


def test_files_of_the_engine_may_stand_there(tmp_path: Path) -> None:
    """The engine's manifest, ledger, lock and folders are left as they are."""
    runtime = tmp_path / ".labfy/runtime"
    (runtime / "owners").mkdir(parents=True)
    for path in (
        tmp_path / "workspace.toml",
        runtime / "ledger.sqlite",
        runtime / "ledger.sqlite-wal",
        runtime / "worker.lock",
    ):
        path.write_bytes(b"engine")
    investigation.create(tmp_path, title="T")
    assert (tmp_path / "workspace.toml").read_bytes() == b"engine"
    assert (runtime / "ledger.sqlite").read_bytes() == b"engine"
    assert investigation.read(tmp_path).title == "T"


@pytest.mark.parametrize(
    "relative",
    [
        "Enquete.sqlite",
        "Enquete.sqlite-journal",
        ".labfy/runtime/workspace.json",
        ".labfy/runtime/specimen.json",
        "core-snapshot.json",
        "jobs-snapshot.json",
        "correlation-snapshot.json",
        "planner-snapshot.json",
        "01_Preuves_Originales/Emails/x.eml",
        "02_Preuves_Traitees/Extractions/EML/x.json",
    ],
)
@pytest.mark.parametrize("specimen", [False, True])
def test_managed_file_refuses_creation(tmp_path: Path, relative: str, specimen: bool) -> None:
    """Any file of an investigation that stands there already refuses the creation, and nothing changes."""
    (tmp_path / relative).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / relative).write_bytes(b"theirs")
    before = tree(tmp_path)
    with pytest.raises(StoreExists, match="nothing was touched"):
        investigation.create(tmp_path, title="T", specimen=specimen)
    assert tree(tmp_path) == before


def test_dangling_link_refuses_creation(tmp_path: Path) -> None:
    """A symlink to nowhere in place of the catalogue is something, and refuses."""
    (tmp_path / places.CATALOGUE).symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreExists):
        investigation.create(tmp_path, title="T")
    assert not (tmp_path / "nowhere").exists()


def test_linked_folder_refuses_creation(tmp_path: Path) -> None:
    """A folder of the layout that is a symlink refuses, and nothing is made on its other side."""
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "case"
    root.mkdir()
    (root / "01_Preuves_Originales").symlink_to(outside)
    with pytest.raises(StoreFailed, match="symlink"):
        investigation.create(root, title="T")
    assert not any(outside.iterdir())
    assert [path.name for path in root.iterdir()] == ["01_Preuves_Originales"]


def test_second_creation_is_refused(tmp_path: Path) -> None:
    """An investigation is created once; the second creation changes nothing."""
    investigation.create(tmp_path, title="T", investigation_id=ID)
    before = tree(tmp_path)
    with pytest.raises(StoreExists):
        investigation.create(tmp_path, title="Other")
    assert tree(tmp_path) == before


def test_reference_store_is_refused_by_name(tmp_path: Path) -> None:
    """A job store of the reference program refuses creating beside it; its bytes are not touched."""
    investigation_root = tmp_path / "case"
    store = investigation_root / ".labfy/runtime/jobs.sqlite"
    store.parent.mkdir(parents=True)
    store.write_bytes(b"reference")
    before = tree(investigation_root)
    with pytest.raises(StoreForeign, match=r"jobs\.sqlite.*nothing was touched.*perenne evidence adopt"):
        investigation.create(investigation_root, title="T")
    assert tree(investigation_root) == before


@pytest.mark.parametrize("point", ["create.folder_made", "create.catalogue_made", "create.staged", "create.renamed"])
def test_failed_creation_leaves_nothing(tmp_path: Path, failing_at: Any, point: str) -> None:
    """When a step fails, what this call made is removed, and only that; then creation works."""
    root = tmp_path / "case"
    root.mkdir()
    (root / "workspace.toml").write_bytes(b"engine")
    with failing_at(point), pytest.raises(RuntimeError, match="injected"):
        investigation.create(root, title="T")
    assert tree(root) == {"workspace.toml": b"engine"}
    investigation.create(root, title="T")


def test_failed_creation_removes_the_folder_it_made(tmp_path: Path, failing_at: Any) -> None:
    """When the root itself was made by a creation that fails, it is gone again."""
    root = tmp_path / "case"
    with failing_at("create.renamed"), pytest.raises(RuntimeError, match="injected"):
        investigation.create(root, title="T")
    assert not root.exists()


@pytest.mark.parametrize("point", ["create.folder_made", "create.catalogue_made", "create.staged"])
def test_killed_creation_makes_no_investigation(tmp_path: Path, dies_at: Any, point: str) -> None:
    """A creation killed before the manifest stands is no investigation; the next one refuses or succeeds, no half."""
    root = tmp_path / "case"
    dies_at(point, lambda: investigation.create(root, title="T"))
    with pytest.raises(StoreMissing, match="holds no investigation"):
        investigation.read(root)
    if point == "create.folder_made":
        investigation.create(root, title="T")
    else:
        with pytest.raises(StoreExists, match="interrupted"):
            investigation.create(root, title="T")


@pytest.mark.parametrize("point", ["create.renamed", "create.folder_synced"])
def test_killed_after_the_manifest_is_whole(tmp_path: Path, dies_at: Any, point: str) -> None:
    """Once the manifest has its name, the investigation opens."""
    root = tmp_path / "case"
    dies_at(point, lambda: investigation.create(root, title="T"))
    assert investigation.read(root).title == "T"
    catalogue.open(root, "write").close()


@pytest.mark.parametrize("title", ["", "   ", "a\nb", "a\x00b", "x" * 161, "é" * 81, "\udc80"])
def test_bad_title_is_refused(tmp_path: Path, title: str) -> None:
    """A title has 1 to 160 bytes of printable text; nothing is made for another."""
    with pytest.raises(InvalidInput, match=r"^title: "):
        investigation.create(tmp_path / "case", title=title)
    assert not (tmp_path / "case").exists()


def test_longest_title_is_taken(tmp_path: Path) -> None:
    """Exactly 160 bytes fit."""
    investigation.create(tmp_path, title="é" * 80)
    assert investigation.read(tmp_path).title == "é" * 80


@pytest.mark.parametrize("identifier", ["x", ID.upper()])
def test_bad_id_is_refused(tmp_path: Path, identifier: str) -> None:
    """The id is a UUID in lower case."""
    with pytest.raises(InvalidInput, match="investigation_id"):
        investigation.create(tmp_path, title="T", investigation_id=identifier)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", StoreFailed),
        (b"[]", StoreFailed),
        (b"\xff", StoreFailed),
        (b"[" * 60_000, StoreFailed),
        (b"{" + b" " * 70_000 + b"}", Exception),
        (b'{"contract": "labfy.local_workspace.v2"}', StoreForeign),
        (b'{"contract": "labfy.local_workspace.v1"}', StoreFailed),
        (b'{"contract": "labfy.local_workspace.v1", "investigation_id": "x", "title": "T"}', StoreFailed),
        (b'{"contract": "labfy.local_workspace.v1", "investigation_id": 7, "title": "T"}', StoreFailed),
        (b'{"contract": "labfy.local_workspace.v1", "investigation_id": "%s", "title": 7}' % ID.encode(), StoreFailed),
    ],
)
def test_damaged_manifest_is_refused(tmp_path: Path, content: bytes, error: type[Exception]) -> None:
    """A manifest that is not what its contract says is refused with one sentence naming it."""
    investigation.create(tmp_path, title="T")
    (tmp_path / manifest.GENERIC).write_bytes(content)
    with pytest.raises(error, match=r"workspace\.json"):
        investigation.read(tmp_path)


def test_synthetic_is_never_guessed(tmp_path: Path) -> None:
    """A specimen manifest that does not say synthetic: true is refused (T-34)."""
    investigation.create(tmp_path, title="T", specimen=True)
    path = tmp_path / manifest.SPECIMEN
    path.write_bytes(path.read_bytes().replace(b"true", b"false"))
    with pytest.raises(StoreFailed, match="synthetic"):
        investigation.read(tmp_path)


def test_reference_manifests_are_read(tmp_path: Path) -> None:
    """Manifests as the reference writes them open; the generic one goes before that of a specimen (L:1.6)."""
    runtime = tmp_path / ".labfy/runtime"
    runtime.mkdir(parents=True)
    (runtime / "specimen.json").write_text(
        json.dumps(
            {
                "contract": "labfy.local_jobs.specimen.v1",
                "synthetic": True,
                "snapshot_file": "core-snapshot.json",
                "snapshot_contract": "labfy.web_graph.snapshot.v3",
                "investigation_id": ID,
                "eml_id": ID,
                "image_id": ID,
            }
        )
    )
    assert investigation.read(tmp_path) == investigation.Investigation(ID, "SPECIMEN", True)
    (runtime / "workspace.json").write_text(
        json.dumps({"contract": "labfy.local_workspace.v1", "investigation_id": ID, "title": "Case", "mode": "x"})
    )
    assert investigation.read(tmp_path) == investigation.Investigation(ID, "Case", False)


def test_linked_manifest_is_refused(tmp_path: Path) -> None:
    """A manifest behind a symlink is not read."""
    investigation.create(tmp_path / "case", title="T")
    path = tmp_path / "case" / manifest.GENERIC
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(StoreFailed, match="symlink"):
        investigation.read(tmp_path / "case")
