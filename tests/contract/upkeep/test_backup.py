"""A backup is one proved file, made beside the work, that takes nobody's place."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne.core.states import JobState
from perenne.errors import EngineError, StoreExists, StoreFailed, StoreForeign, StoreMissing, UnsafeFilesystem
from perenne.runtime.backup import backup as make_backup
from perenne.store.copies import Copy
from perenne.store.sqlite import backup as copies
from perenne.store.sqlite import migration

POINTS = [
    "copy.created",
    "copy.filled",
    "backup.staged",
    "backup.renamed",
    "backup.folder_synced",
    "backup.leftover_removed",
]


def backup(place: Any, path: Path, **values: Any) -> Copy:
    return make_backup(place.workspace, path, copies=copies, **values)


def is_backup_of(path: Path, place: Any, trouble: Any) -> None:
    tables = ("job", "attempt", "dependency", "history", "queue", "store", "owner", "listener", "notice")
    for table in tables:
        assert trouble.rows(path, f"select * from {table}") == place.rows(f"select * from {table}")


def test_backup_is_one_private_whole_file(full: Any, tmp_path: Path, trouble: Any) -> None:
    """A backup holds every row, is one file without companions, mode 0600, and its facts are answered."""
    path = tmp_path / "backup.sqlite"
    found = backup(full, path)
    assert found == Copy(
        full.workspace.id, 1, migration.known(), len(JobState), full.reader.revision(), path.stat().st_size
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["backup.sqlite", "full"]
    is_backup_of(path, full, trouble)
    assert trouble.rows(path, "pragma journal_mode") == [("delete",)]


def test_backup_changes_nothing(full: Any, tmp_path: Path, trouble: Any) -> None:
    """A backup changes no byte of the workspace, and reading a backup changes no byte of it."""
    full.close()
    before = trouble.contents(full.workspace.root)
    backup(full, tmp_path / "backup.sqlite")
    assert trouble.contents(full.workspace.root) == before
    data = (tmp_path / "backup.sqlite").read_bytes()
    copies.verify(tmp_path / "backup.sqlite", workspace=full.workspace.id)
    assert (tmp_path / "backup.sqlite").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["backup.sqlite", "full"]


def test_backup_beside_writers_is_one_moment(
    place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Any
) -> None:
    """While another thread commits without pause, a backup in small steps ends, and holds one moment's state."""
    for _ in range(30):
        place.complete()
    monkeypatch.setattr(copies, "STEP_PAGES", 1)
    goes_on, stop = threading.Event(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            place.complete()
            goes_on.set()

    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        goes_on.clear()
        seen.append((done, total))
        assert goes_on.wait(10)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        found = backup(place, tmp_path / "backup.sqlite", progress=progress)
    finally:
        stop.set()
        writer.join()
    assert len(seen) > 10
    assert len({total for _, total in seen}) == 1
    assert seen[-1][0] == seen[-1][1]
    assert found.jobs < len(place.reader.jobs())
    assert found.revision < place.reader.revision()
    jobs, completed = trouble.rows(tmp_path / "backup.sqlite", "select count(*), sum(state = 'COMPLETED') from job")[0]
    assert jobs - completed <= 1
    assert found.jobs == jobs


@pytest.mark.parametrize("there", ["file", "folder", "link to nowhere", "the ledger"])
def test_backup_never_overwrites(place: Any, tmp_path: Path, there: str) -> None:
    """Whatever has the name keeps it; nothing is copied."""
    path = tmp_path / "taken"
    if there == "file":
        path.write_text("mine")
    elif there == "folder":
        path.mkdir()
    elif there == "the ledger":
        path = place.workspace.ledger
    else:
        path.symlink_to("nowhere")
    before = sorted(os.listdir(path.parent))
    with pytest.raises(StoreExists):
        backup(place, path)
    assert sorted(os.listdir(path.parent)) == before


def test_backup_to_a_missing_folder_is_refused(place: Any, tmp_path: Path) -> None:
    """A missing folder is named; it is not made."""
    with pytest.raises(StoreFailed, match="folder is missing"):
        backup(place, tmp_path / "missing" / "backup.sqlite")


def test_backup_to_an_unsafe_file_system_is_refused(
    place: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A place that cannot keep the promises of a store is refused by name, before anything is written."""
    from perenne import sqlite

    real = sqlite.refuse_unsafe
    target = tmp_path / "share"
    target.mkdir()

    def refuse(folder: Path, **values: Any) -> Any:
        if folder == target:
            raise UnsafeFilesystem(f"folder {folder} stands on nfs4")
        return real(folder, **values)

    monkeypatch.setattr(sqlite, "refuse_unsafe", refuse)
    with pytest.raises(UnsafeFilesystem, match="nfs4"):
        backup(place, target / "backup.sqlite")
    assert os.listdir(target) == []


def test_damaged_ledger_makes_no_backup(place: Any, tmp_path: Path, trouble: Any) -> None:
    """A ledger with a broken index or a dangling reference is found out before the backup has its name."""
    for _ in range(3):
        place.complete()
    place.close()
    trouble.rows(place.workspace.ledger, "update attempt set job = 99 where job = 1")
    with pytest.raises(StoreFailed, match=r"damaged.*: row .* of attempt names a missing row of job"):
        backup(place, tmp_path / "backup.sqlite")
    assert os.listdir(tmp_path) == ["workspace"]


def test_ledger_of_another_workspace_makes_no_backup(place: Any, tmp_path: Path) -> None:
    """When the ledger belongs to another workspace than the manifest says, no backup takes its name."""
    place.rows("update store set workspace = '99999999-9999-4999-8999-999999999999'")
    with pytest.raises(StoreForeign, match="99999999"):
        backup(place, tmp_path / "backup.sqlite")
    assert os.listdir(tmp_path) == ["workspace"]


def test_missing_ledger_makes_no_backup(place: Any, tmp_path: Path) -> None:
    """A missing ledger is named; no empty backup is made."""
    place.close()
    for path in place.workspace.own_folder.glob("ledger.sqlite*"):
        path.unlink()
    with pytest.raises(StoreMissing):
        backup(place, tmp_path / "backup.sqlite")
    assert os.listdir(tmp_path) == ["workspace"]


@pytest.mark.parametrize("point", POINTS)
def test_backup_killed_at_each_point(
    place: Any, make: Callable[..., Any], tmp_path: Path, trouble: Any, point: str
) -> None:
    """Killed at any point, the name is absent or stands for a whole backup; at most one stage is left beside it."""
    place.complete()
    place.close()
    path = tmp_path / "backup.sqlite"
    assert trouble.dies_at(point, lambda: backup(place, path))
    place = make(again=True)
    assert path.exists() == (POINTS.index(point) >= 3)
    if path.exists():
        is_backup_of(path, place, trouble)
        path.unlink()
    stages = [name for name in os.listdir(tmp_path) if ".stage-" in name and not name.endswith("-journal")]
    assert len(stages) == (point != "backup.leftover_removed")
    backup(place, path)
    is_backup_of(path, place, trouble)


@pytest.mark.parametrize("point", POINTS)
def test_backup_failing_at_each_point(place: Any, tmp_path: Path, trouble: Any, point: str) -> None:
    """An error at any point leaves no stage; the name is absent or stands for a whole backup."""
    place.complete()
    path = tmp_path / "backup.sqlite"
    with trouble.fails_at(point), pytest.raises(RuntimeError, match="injected"):
        backup(place, path)
    assert sorted(os.listdir(tmp_path)) == [*(["backup.sqlite"] if POINTS.index(point) >= 3 else []), "workspace"]


def test_every_page_is_looked_at(place: Any, tmp_path: Path) -> None:
    """A backup of which any page was overwritten afterwards is found damaged, or is no store at all."""
    for _ in range(20):
        place.complete()
    path = tmp_path / "backup.sqlite"
    backup(place, path)
    whole = path.read_bytes()
    for start in range(0, len(whole), 4096):
        path.write_bytes(whole[:start] + b"\xa5" * 4096 + whole[start + 4096 :])
        with pytest.raises(EngineError) as found:
            copies.verify(path, workspace=place.workspace.id)
        assert str(path) in str(found.value)
    for cut in (len(whole) - 4096, len(whole) // 2, 4096, 100, 0):
        path.write_bytes(whole[:cut])
        with pytest.raises((StoreFailed, StoreForeign)):
            copies.verify(path, workspace=place.workspace.id)
