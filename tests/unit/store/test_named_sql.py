"""Queries are found by name; a block that would be lost or glued to its neighbour is a fault, not a silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from perenne.store.named_sql import load


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.sql").write_text(text)
    return tmp_path


def test_blocks_of_all_files_are_found_by_name(tmp_path: Path) -> None:
    """A block runs from its name to the next one; comments and blank lines are left out, everything else is kept."""
    found = load(
        folder(
            tmp_path,
            one="-- name: first\n-- What it promises. :x\nselect 1\n\nfrom t\n\n-- name: second\nselect '--' || :x\n",
            two="-- A word about the file.\n\n-- name: third\nselect 3",
        )
    )
    assert found == {"first": "select 1\nfrom t", "second": "select '--' || :x", "third": "select 3"}


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """Only .sql files are read."""
    (tmp_path / "notes.txt").write_text("-- name: nothing\nselect 1")
    assert load(tmp_path) == {}


def test_a_name_stands_once(tmp_path: Path) -> None:
    """Two blocks of one name, in one file or in two, are refused with the name."""
    with pytest.raises(ValueError, match="first stands twice"):
        load(folder(tmp_path, one="-- name: first\nselect 1", two="-- name: first\nselect 2"))


@pytest.mark.parametrize(
    "head",
    ["-- name: two words", "-- name:second", "--name: second", "-- Name: second", "-- name: second :x", "-- name: "],
)
def test_a_head_that_is_no_name_is_refused(tmp_path: Path, head: str) -> None:
    """A misspelt head does not make its block a part of the one before."""
    with pytest.raises(ValueError, match=r"one\.sql"):
        load(folder(tmp_path, one=f"-- name: first\nselect 1\n\n{head}\ndelete from job\n"))


def test_a_block_without_sql_is_refused(tmp_path: Path) -> None:
    """A name without a statement is refused."""
    with pytest.raises(ValueError, match="first"):
        load(folder(tmp_path, one="-- name: first\n-- Nothing.\n\n-- name: second\nselect 2"))


def test_sql_before_the_first_name_is_refused(tmp_path: Path) -> None:
    """A statement that no name leads to is refused; a comment may stand there."""
    with pytest.raises(ValueError, match=r"one\.sql"):
        load(folder(tmp_path, one="select 0\n-- name: first\nselect 1"))
