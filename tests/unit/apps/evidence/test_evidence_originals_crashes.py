"""Killing an import at every point: each content once, and no copy that nobody names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne import crashpoints
from perenne.apps.evidence import originals, places

AT = "2026-09-26T20:00:00Z"
CONTENTS = {
    "a.eml": b"From: a@example.test\r\n\r\n",
    "b.png": b"\x89PNG\r\n\x1a\nb",
    "c.jpg": b"\xff\xd8\xffc",
    "d.eml": b"From: d@example.test\r\n\r\n",
}
BEFORE_COMMIT = [
    *(f"import.{step}:{number}" for step in ("staged", "renamed", "folder_synced") for number in (1, 2, 4)),
    "import.written",
]


@pytest.fixture
def selection(tmp_path: Path) -> list[Path]:
    """Four files of different content."""
    paths = [tmp_path / name for name in CONTENTS]
    for path in paths:
        path.write_bytes(CONTENTS[path.name])
    return paths


def copies(root: Path) -> list[bytes]:
    above = root / "01_Preuves_Originales"
    return sorted(path.read_bytes() for path in above.rglob("*") if path.is_file())


@pytest.fixture
def stands_once(sql: Callable[..., list[Any]]) -> Callable[[Path], None]:
    """Asserts that each content stands once, as a row and as a copy, and that nothing else does."""

    def check(root: Path) -> None:
        assert copies(root) == sorted(CONTENTS.values())
        paths = [row[0] for row in sql(root, "select relative_path from preuves")]
        assert sorted((root / path).read_bytes() for path in paths) == sorted(CONTENTS.values())
        assert len(paths) == len(CONTENTS)

    return check


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_killed_then_imported_again(
    root: Path, selection: list[Path], dies_at: Any, sql: Any, stands_once: Any, point: str
) -> None:
    """Killed before the commit no row stands; the same import again makes each content stand once."""
    dies_at(point, lambda: originals.import_files(root, selection, imported_at=AT))
    assert sql(root, "select count(*) from preuves") == [(0,)]
    imported = originals.import_files(root, selection, imported_at=AT)
    assert not any(item.reused for item in imported)
    stands_once(root)


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_killed_then_another_import(root: Path, selection: list[Path], dies_at: Any, sql: Any, point: str) -> None:
    """What a killed import left does not outlive the next import of something else."""
    dies_at(point, lambda: originals.import_files(root, selection, imported_at=AT))
    originals.import_files(root, selection[:1], imported_at=AT)
    assert copies(root) == [CONTENTS["a.eml"]]
    assert sql(root, "select count(*) from preuves") == [(1,)]


def test_copy_of_a_dead_import_is_adopted(root: Path, selection: list[Path], dies_at: Any) -> None:
    """A verified copy without a row is used as it is; one whose bytes are wrong is written again."""
    dies_at("import.folder_synced", lambda: originals.import_files(root, selection[:1], imported_at=AT))
    (copy,) = (root / places.MAIL_ORIGINALS).iterdir()
    before = copy.stat().st_ino
    originals.import_files(root, selection[:1], imported_at=AT)
    assert copy.stat().st_ino == before


def test_damaged_copy_of_a_dead_import_is_replaced(root: Path, selection: list[Path], dies_at: Any) -> None:
    """A copy without a row whose bytes are wrong is written again."""
    dies_at("import.folder_synced", lambda: originals.import_files(root, selection[:1], imported_at=AT))
    (copy,) = (root / places.MAIL_ORIGINALS).iterdir()
    copy.write_bytes(b"rotten")
    originals.import_files(root, selection[:1], imported_at=AT)
    assert copies(root) == [CONTENTS["a.eml"]]


def test_killed_after_the_commit(root: Path, selection: list[Path], dies_at: Any, stands_once: Any) -> None:
    """Killed after the commit everything stands; importing again reports it as reused."""
    dies_at("import.committed", lambda: originals.import_files(root, selection, imported_at=AT))
    stands_once(root)
    assert all(item.reused for item in originals.import_files(root, selection, imported_at=AT))
    stands_once(root)


def test_killed_while_making_the_folder(root: Path, selection: list[Path], dies_at: Any, stands_once: Any) -> None:
    """Killed after a missing folder was made, the next import works."""
    (root / places.MAIL_ORIGINALS).rmdir()
    dies_at("import.folder_made", lambda: originals.import_files(root, selection, imported_at=AT))
    originals.import_files(root, selection, imported_at=AT)
    stands_once(root)


def test_killed_while_sweeping(root: Path, selection: list[Path], dies_at: Any) -> None:
    """Sweeping is itself safe to kill."""
    dies_at("import.written", lambda: originals.import_files(root, selection, imported_at=AT))
    dies_at("import.leftover_removed:2", lambda: originals.sweep(root))
    originals.sweep(root)
    assert copies(root) == []


@pytest.mark.parametrize("point", ["import.rolled_back", "import.undone", "import.undone:3"])
def test_killed_while_undoing(
    root: Path, selection: list[Path], dies_at: Any, sql: Any, stands_once: Any, point: str
) -> None:
    """Killed while a failed import is being taken back, no row stands, and the next import mends the rest."""

    def work() -> None:
        def observer(name: str) -> None:
            if name == "import.written":
                raise RuntimeError("injected")

        crashpoints.observe(observer)
        originals.import_files(root, selection, imported_at=AT)

    dies_at(point, work)
    assert sql(root, "select count(*) from preuves") == [(0,)]
    originals.import_files(root, selection, imported_at=AT)
    stands_once(root)


def test_two_imports_at_once(root: Path, selection: list[Path], stands_once: Any) -> None:
    """Four processes importing the same selection at once all succeed, and each content stands once."""
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                originals.import_files(root, selection, imported_at=AT)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    stands_once(root)
