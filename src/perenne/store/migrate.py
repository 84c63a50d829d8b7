"""Numbered migrations: forward only, each in one transaction, never run by a reader or a short command.

What lives here: which steps are missing and when to refuse. What does not: the SQL, which is in the driver's folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from perenne.errors import SchemaTooNew, SchemaTooOld


class Step(NamedTuple):
    """One migration, as people see it before it runs: its number, its name, and what it says about itself."""

    number: int
    name: str
    summary: str


def steps(folder: Path) -> list[str]:
    """The SQL of every migration, in order; the version of a store is how many of them it has seen.

    Raises: ValueError: the numbers do not run 1, 2, 3 …
    """
    return [file.read_text(encoding="utf-8") for file in _files(folder)]


def plan(folder: Path, found: int) -> list[Step]:
    """The steps that a store of version `found` still needs, in the order in which they will run; none when it is new.

    Raises: ValueError: as `steps`, or a migration does not open with a comment.
    """
    return [_step(file) for file in _files(folder)[found:]]


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.sql"))
    numbers = [int(match[1]) for file in files if (match := re.match(r"(\d{4})_\w+\.sql$", file.name))]
    if numbers != list(range(1, len(files) + 1)):
        raise ValueError(f"{folder}: migrations are not numbered from 0001 without a gap: {[f.name for f in files]}")
    return files


def _step(file: Path) -> Step:
    """The comment that a migration opens with is its summary."""
    number, _, name = file.stem.partition("_")
    opening = re.match(r"(?:-- ?(.*)\n)+", file.read_text(encoding="utf-8"))
    if opening is None:
        raise ValueError(f"{file}: a migration opens with a comment that says what it does")
    words = [line.lstrip("- ").strip() for line in opening[0].splitlines()]
    return Step(int(number), name, " ".join(words))


def check(path: Path, found: int, known: int) -> None:
    """Refuse a schema that this program must not touch.

    Raises: SchemaTooNew, SchemaTooOld.
    """
    if found > known:
        raise SchemaTooNew(
            f"{path}: schema version {found}, this program knows up to {known}; use the newer one, nothing was changed",
            value=found,
            limit=known,
        )
    if found < known:
        raise SchemaTooOld(
            f"{path}: schema version {found}, this program needs {known}; start a worker: it migrates under its lock",
            value=found,
            limit=known,
        )
