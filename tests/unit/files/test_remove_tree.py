"""Removing what an attempt left in its private folder, whatever a tool has made of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perenne import crashpoints
from perenne.files import atomic

POINT = "recover.leftover_removed"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A private folder with files on two levels, a link to a folder outside, a broken link, a pipe."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    made = tmp_path / "stage"
    (made / "below").mkdir(parents=True)
    (made / "one").write_text("1")
    (made / "below" / "two").write_text("2")
    (made / "link").symlink_to(outside)
    (made / "below" / "broken").symlink_to("nowhere")
    os.mkfifo(made / "pipe")
    return made


def test_all_of_it_goes(folder: Path) -> None:
    """Files, pipes, links and folders go; what a link names stays."""
    atomic.remove_tree(folder, point=POINT)
    assert not folder.exists()
    assert (folder.parent / "outside" / "kept").read_text() == "kept"


def test_a_point_stands_behind_each_file(folder: Path) -> None:
    """The crash point is passed once for each name that is no folder."""
    seen: list[str] = []
    crashpoints.observe(seen.append)
    try:
        atomic.remove_tree(folder, point=POINT)
    finally:
        crashpoints.observe(None)
    assert seen == [POINT] * 5


def test_a_closed_folder_is_opened(folder: Path) -> None:
    """A folder whose mode forbids to list or change it is removed too."""
    (folder / "below").chmod(0)
    atomic.remove_tree(folder, point=POINT)
    assert not folder.exists()


def test_a_file_is_removed(folder: Path) -> None:
    """A path that is no folder is removed as the file that it is."""
    atomic.remove_tree(folder / "link", point=POINT)
    assert not (folder / "link").is_symlink()
    assert (folder.parent / "outside" / "kept").exists()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Nothing at the path is an OSError; the caller decides whether it matters."""
    with pytest.raises(FileNotFoundError):
        atomic.remove_tree(tmp_path / "missing", point=POINT)
