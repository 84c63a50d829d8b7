"""Numbered migrations: forward only, each in one transaction, never run by a reader or a short command.

What lives here: which steps are missing and when to refuse. What does not: the SQL, which is in the driver's folder.
"""

from __future__ import annotations

import re
from pathlib import Path

from perenne.errors import SchemaTooNew, SchemaTooOld


def steps(folder: Path) -> list[str]:
    """The SQL of every migration, in order; the version of a store is how many of them it has seen.

    Raises: ValueError: the numbers do not run 1, 2, 3 …
    """
    files = sorted(folder.glob("*.sql"))
    numbers = [int(match[1]) for file in files if (match := re.match(r"(\d{4})_\w+\.sql$", file.name))]
    if numbers != list(range(1, len(files) + 1)):
        raise ValueError(f"{folder}: migrations are not numbered from 0001 without a gap: {[f.name for f in files]}")
    return [file.read_text(encoding="utf-8") for file in files]


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
