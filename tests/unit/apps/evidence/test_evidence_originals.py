"""Importing originals: one copy of each content, all of a selection or none, one clear refusal."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne.apps.evidence import originals, places
from perenne.apps.evidence.identities import evidence_id_of
from perenne.errors import EngineError, InvalidInput, RecoveryRequired, StoreFailed, TooLarge

AT = "2026-09-26T20:00:00Z"
INVESTIGATION_ID = "82000000-0000-4000-8000-000000000001"
MAIL = b"From: alice@example.test\r\n\r\nHello.\r\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(64))


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[Path]]:
    """Writes files of the given names and contents."""

    def write(**contents: bytes) -> list[Path]:
        paths = []
        for name, content in contents.items():
            path = tmp_path / name.replace("_", ".")
            path.write_bytes(content)
            paths.append(path)
        return paths

    return write


@pytest.fixture
def evidence(sql: Callable[..., list[Any]]) -> Callable[[Path], list[Any]]:
    """Every row of evidence."""
    return lambda root: sql(root, "select id, relative_path, sha256, size_bytes from preuves order by id")


def copies(root: Path) -> list[str]:
    above = root / "01_Preuves_Originales"
    return sorted(path.relative_to(root).as_posix() for path in above.rglob("*") if not path.is_dir())


def test_three_kinds_of_original(root: Path, files: Any, sql: Callable[..., list[Any]]) -> None:
    """Mail, PNG and JPEG are copied under their ids, hashed, 0600, and named in the order given."""
    before = os.umask(0)
    try:
        imported = originals.import_files(root, files(a_eml=MAIL, b_png=PNG, c_jpeg=JPEG), imported_at=AT)
    finally:
        os.umask(before)
    assert [item.original_name for item in imported] == ["a.eml", "b.png", "c.jpeg"]
    assert [item.type for item in imported] == ["email", "photo", "photo"]
    assert [item.mime_type for item in imported] == ["message/rfc822", "image/png", "image/jpeg"]
    for item, content, place in zip(
        imported,
        (MAIL, PNG, JPEG),
        (
            "01_Preuves_Originales/Emails/{}.eml",
            "01_Preuves_Originales/Images/{}.png",
            "01_Preuves_Originales/Images/{}.jpg",
        ),
        strict=True,
    ):
        assert item.sha256 == hashlib.sha256(content).hexdigest()
        assert item.size_bytes == len(content)
        assert item.evidence_id == evidence_id_of(INVESTIGATION_ID, item.sha256)
        assert item.relative_path == place.format(item.evidence_id)
        assert not item.reused
        copy = root / item.relative_path
        assert copy.read_bytes() == content
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert sql(
            root,
            "select relative_path, sha256, size_bytes, mime_type, original_name, imported_at, collected_at, "
            "integrity_status, status, name from preuves where id = :id",
            id=item.evidence_id,
        ) == [
            (
                item.relative_path,
                item.sha256,
                item.size_bytes,
                item.mime_type,
                item.original_name,
                AT,
                AT,
                1,
                "active",
                copy.name,
            )
        ]
    assert copies(root) == sorted(item.relative_path for item in imported)


def test_source_is_left_alone(root: Path, files: Any) -> None:
    """The file given is copied, never moved or changed."""
    (path,) = files(a_eml=MAIL)
    before = path.stat()
    originals.import_files(root, [path], imported_at=AT)
    after = path.stat()
    assert path.read_bytes() == MAIL
    assert (before.st_ino, before.st_mtime_ns, before.st_mode) == (after.st_ino, after.st_mtime_ns, after.st_mode)


def test_same_content_is_the_same_evidence(root: Path, files: Any, evidence: Any) -> None:
    """Imported again, under whatever name, the content keeps its id, its first name and its one copy."""
    (first,) = originals.import_files(root, files(a_eml=MAIL), imported_at=AT)
    before = evidence(root), copies(root)
    (again,) = originals.import_files(root, files(other_eml=MAIL), imported_at="2026-09-27T00:00:00Z")
    assert again.reused
    assert (again.evidence_id, again.original_name) == (first.evidence_id, "a.eml")
    assert (evidence(root), copies(root)) == before


def test_same_content_twice_in_one_selection(root: Path, files: Any, evidence: Any) -> None:
    """Two files of one content in a selection are one piece of evidence; the second is reported as reused."""
    first, second = originals.import_files(root, files(a_eml=MAIL, b_eml=MAIL), imported_at=AT)
    assert (first.reused, second.reused) == (False, True)
    assert first.evidence_id == second.evidence_id
    assert len(evidence(root)) == 1


def test_original_of_the_reference_is_recognised(root: Path, files: Any, sql: Callable[..., list[Any]]) -> None:
    """Content that the reference imported under a random id keeps that id."""
    (item,) = originals.import_files(root, files(a_eml=MAIL), imported_at=AT)
    random_id = "0b7e5d0e-9a86-4a55-9d0c-5f0c5ee0a001"
    place = f"{places.MAIL_ORIGINALS}/{random_id}.eml"
    (root / item.relative_path).rename(root / place)
    sql(root, "update preuves set id = :id, relative_path = :place", id=random_id, place=place)
    (again,) = originals.import_files(root, files(b_eml=MAIL), imported_at=AT)
    assert again.reused
    assert again.evidence_id == random_id
    assert copies(root) == [place]


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    target = path.with_name("target.eml")
    target.write_bytes(MAIL)
    path.symlink_to(target)


REFUSED: list[tuple[str, Callable[[Path], object], type[EngineError], str]] = [
    ("link.eml", _link, InvalidInput, r"symbolic link; give a regular file"),
    ("dangling.eml", lambda path: path.symlink_to("nowhere"), InvalidInput, r"symbolic link; give a regular file"),
    ("pipe.eml", _fifo, InvalidInput, r"named pipe; give a regular file"),
    ("folder.eml", lambda path: path.mkdir(), InvalidInput, r"folder; give a regular file"),
    ("empty.eml", lambda path: path.touch(), InvalidInput, r"is empty; give"),
    ("vanished.eml", lambda path: None, InvalidInput, r"No such file"),
    ("large.eml", lambda path: path.write_bytes(MAIL + b"x" * (4 << 20)), TooLarge, r"limit is 4194304; give"),
    ("notes.txt", lambda path: path.write_bytes(MAIL), InvalidInput, r"neither PNG nor JPEG nor the header of a mail"),
    ("prose.eml", lambda path: path.write_bytes(b"Dear all,"), InvalidInput, r"begins with b'Dear all'.*give one"),
    ("film.gif", lambda path: path.write_bytes(b"GIF89a"), InvalidInput, r"begins with b'GIF89a'"),
]


@pytest.mark.parametrize(("name", "make", "error", "sentence"), REFUSED, ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_file_refuses_the_selection(
    root: Path,
    files: Any,
    tmp_path: Path,
    evidence: Any,
    name: str,
    make: Callable[[Path], object],
    error: type[EngineError],
    sentence: str,
    place: int,
) -> None:
    """Wherever the bad file stands, nothing of the selection is imported, no file is left, and the error names it."""
    bad = tmp_path / name
    make(bad)
    selection = files(first_eml=MAIL, second_png=PNG)
    selection.insert(place, bad)
    with pytest.raises(error, match=rf"{re.escape(name)}.*{sentence}"):
        originals.import_files(root, selection, imported_at=AT)
    assert evidence(root) == []
    assert copies(root) == []


def test_device_is_refused(root: Path) -> None:
    """A device is never opened."""
    with pytest.raises(InvalidInput, match="character device"):
        originals.import_files(root, [Path("/dev/zero")], imported_at=AT)


def test_largest_file_is_taken(root: Path, files: Any) -> None:
    """Exactly 4 MiB fit; another limit may be given."""
    content = MAIL + b"x" * ((4 << 20) - len(MAIL))
    (item,) = originals.import_files(root, files(a_eml=content), imported_at=AT)
    assert item.size_bytes == 4 << 20
    with pytest.raises(TooLarge, match="limit is 10"):
        originals.import_files(root, files(b_eml=MAIL), imported_at=AT, file_limit_bytes=10)


@pytest.mark.parametrize("count", [0, 1001])
def test_selection_is_bounded(root: Path, count: int) -> None:
    """A selection has 1 to 1000 files; the error says how many were given."""
    with pytest.raises(InvalidInput, match=rf"{count} files; give 1 to 1000"):
        originals.import_files(root, [Path("a.eml")] * count, imported_at=AT)


def test_bad_instant_is_refused(root: Path, files: Any) -> None:
    """The instant of the import has its 20 characters."""
    with pytest.raises(InvalidInput, match="imported_at"):
        originals.import_files(root, files(a_eml=MAIL), imported_at="now")


def test_name_that_is_no_text_is_kept_readable(root: Path, tmp_path: Path) -> None:
    """A file name that is no UTF-8 does not refuse the file."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.eml"))
    path.write_bytes(MAIL)
    (item,) = originals.import_files(root, [path], imported_at=AT)
    assert item.original_name == "caf\\xe9.eml"


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b"other"), lambda path: path.write_bytes(MAIL[:-1] + b"?")]
)
def test_damaged_original_is_not_reported_as_reused(
    root: Path, files: Any, evidence: Any, damage: Callable[[Path], object]
) -> None:
    """Importing content whose original no longer verifies is a matter for a person; nothing is repaired silently."""
    (item,) = originals.import_files(root, files(a_eml=MAIL), imported_at=AT)
    damage(root / item.relative_path)
    before = evidence(root)
    with pytest.raises(RecoveryRequired, match=rf"{item.evidence_id}.*restore"):
        originals.import_files(root, files(c_png=PNG, b_eml=MAIL), imported_at=AT)
    assert evidence(root) == before
    assert not list((root / places.IMAGE_ORIGINALS).iterdir())


@pytest.mark.parametrize("component", ["01_Preuves_Originales", places.MAIL_ORIGINALS])
def test_linked_folder_is_refused(root: Path, files: Any, tmp_path: Path, evidence: Any, component: str) -> None:
    """A symlink on the way to the copies is refused, and nothing is written on its other side."""
    outside = tmp_path / "outside"
    (root / component).rename(outside)
    (root / component).symlink_to(outside)
    with pytest.raises(StoreFailed, match="symlink"):
        originals.import_files(root, files(a_eml=MAIL), imported_at=AT)
    assert not [path for path in outside.rglob("*") if path.is_file()]
    assert evidence(root) == []


@pytest.mark.parametrize("point", ["import.staged", "import.renamed", "import.folder_synced", "import.written"])
def test_failure_leaves_nothing(root: Path, files: Any, evidence: Any, failing_at: Any, point: str) -> None:
    """Wherever an import fails before its commit, rows and files are as before, and the next import succeeds."""
    originals.import_files(root, files(kept_eml=MAIL), imported_at=AT)
    before = evidence(root), copies(root)
    selection = files(again_eml=MAIL, b_png=PNG, c_jpg=JPEG)
    with failing_at(point), pytest.raises(RuntimeError, match="injected"):
        originals.import_files(root, selection, imported_at=AT)
    assert (evidence(root), copies(root)) == before
    assert [item.reused for item in originals.import_files(root, selection, imported_at=AT)] == [True, False, False]


def test_commit_that_took_place_keeps_its_files(root: Path, files: Any, failing_at: Any) -> None:
    """When the failure comes after the commit, the copies stay: the rows name them."""
    selection = files(a_eml=MAIL)
    with failing_at("import.committed"), pytest.raises(RuntimeError, match="injected"):
        originals.import_files(root, selection, imported_at=AT)
    (item,) = originals.import_files(root, selection, imported_at=AT)
    assert item.reused
    assert (root / item.relative_path).read_bytes() == MAIL


def test_sweep_leaves_strangers_alone(root: Path, files: Any) -> None:
    """Only stage files, and copies whose name follows from their content, are swept; the rest is nobody's to remove."""
    (kept,) = originals.import_files(root, files(a_eml=MAIL), imported_at=AT)
    folder = root / places.IMAGE_ORIGINALS
    ours = folder / f"{evidence_id_of(INVESTIGATION_ID, hashlib.sha256(PNG).hexdigest())}.png"
    ours.write_bytes(PNG)
    stage = folder / "x.png.stage-import"
    stage.write_bytes(b"torn")
    strangers = [folder / "photo.png", folder / f"{kept.evidence_id}.png", folder / "a.stage"]
    for path in strangers:
        path.write_bytes(PNG)
    (folder / "subfolder").mkdir()
    assert sorted(originals.sweep(root)) == sorted([ours, stage])
    assert all(path.exists() for path in strangers)
    assert (root / kept.relative_path).exists()
    assert originals.sweep(root) == []
