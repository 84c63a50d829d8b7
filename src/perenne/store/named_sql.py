"""Loads `-- name:` blocks from .sql files: the only place where SQL text is found by name."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load(folder: Path) -> dict[str, str]:
    """Every block of every .sql file in the folder, by name, without its comments.

    Raises: ValueError: a name stands twice.
    """
    queries: dict[str, str] = {}
    for file in sorted(folder.glob("*.sql")):
        for name, text in _blocks(file.read_text(encoding="utf-8")):
            if name in queries:
                raise ValueError(f"{file.name}: the query {name} stands twice")
            queries[name] = text
    return queries


def _blocks(text: str) -> list[tuple[str, str]]:
    parts = _HEAD.split(text)[1:]
    return [(name, _bare(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def _bare(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if line and not line.startswith("--"))
