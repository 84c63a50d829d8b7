"""Loads `-- name:` blocks from .sql files: the only place where SQL text is found by name."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_LIKE_A_HEAD = re.compile(r"--\s*name\s*:", re.IGNORECASE)


def load(folder: Path) -> dict[str, str]:
    """Every block of every .sql file in the folder, by name, without its comments.

    Raises: ValueError: a name stands twice or is none, a name has no statement, or a statement no name.
    """
    queries: dict[str, str] = {}
    for file in sorted(folder.glob("*.sql")):
        for name, text in _blocks(file):
            if name in queries:
                raise ValueError(f"{file.name}: the query {name} stands twice")
            queries[name] = text
    return queries


def _blocks(file: Path) -> list[tuple[str, str]]:
    text = file.read_text(encoding="utf-8")
    for line in text.splitlines():
        if _LIKE_A_HEAD.match(line) and not _HEAD.match(line):
            raise ValueError(f"{file.name}: {line!r} is no name; write `-- name: one_word`")
    opening, *parts = _HEAD.split(text)
    if _bare(opening):
        raise ValueError(f"{file.name}: a statement stands before the first name")
    blocks = [(name, _bare(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)]
    for name, statement in blocks:
        if not statement:
            raise ValueError(f"{file.name}: the query {name} has no statement")
    return blocks


def _bare(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if line and not line.startswith("--"))
