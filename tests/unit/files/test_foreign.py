"""What belongs to the reference program of photogrammetry is refused by name, and stays as it is."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import perenne
from perenne import App
from perenne.errors import CheckpointUnsupported, StoreForeign, StoreMissing
from perenne.files import record

APP = App("foreign")
INI = "[project]\nname = Mill\nid = 0123456789abcdef0123456789abcdef\nversion = 2\n"


def whole(root: Path) -> None:
    (root / "project.ini").write_text(INI)
    (root / "project.db").write_bytes(b"SQLite format 3\0")
    (root / ".lardon3d" / "checkpoints").mkdir(parents=True)
    (root / ".lardon3d" / "checkpoints" / "7.chk").write_bytes(struct.pack("<8sII", b"L3DTASK", 1, 516).ljust(516))


def first_version(root: Path) -> None:
    (root / "project.ini").write_text("[project]\nname = Mill 100%\nversion = 1\n")
    (root / "project.db").touch()


def without_its_manifest(root: Path) -> None:
    (root / ".lardon3d").mkdir()


@pytest.mark.parametrize("make", [whole, first_version, without_its_manifest])
def test_a_project_of_the_reference_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """It is neither opened nor made a workspace; the sentence names the program, and no file is added or changed."""
    make(tmp_path)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(StoreForeign, match=r"is a project of Lardon3D.*choose another folder"):
        perenne.open(tmp_path, APP)
    with pytest.raises(StoreForeign, match="is a project of Lardon3D"):
        perenne.create(tmp_path, APP, name="Mill")
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("text", [INI, "[mill]\nname = 1\n", "\0\xff", "[project", ""])
def test_another_project_ini_is_nobody_s_business(tmp_path: Path, text: str) -> None:
    """A file of that name alone, or without that section, says nothing: many programs have one."""
    (tmp_path / "project.ini").write_text(text)
    if text != INI:
        (tmp_path / "project.db").touch()
    with pytest.raises(StoreMissing):
        perenne.open(tmp_path, APP)
    assert perenne.create(tmp_path, APP, name="Mill").root == tmp_path


def test_a_task_record_of_the_reference_is_named(tmp_path: Path) -> None:
    """Its 516 bytes are no damaged checkpoint of ours: they are told apart by their first eight."""
    with pytest.raises(CheckpointUnsupported, match="a task record of Lardon3D"):
        record.decode(struct.pack("<8sII", b"L3DTASK", 1, 516).ljust(516, b"\0"))
