"""What these commands are lent by the surface that runs them: its words, its rounding, its tables.

An application does not import a surface; the command line hands this over as click's context object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import click


class Screen(Protocol):
    """The part of `perenne.surfaces.views` that is used here."""

    STATES: Mapping[str, str]

    def one_line(self, text: str) -> str: ...

    def count(self, number: int, noun: str, plural: str | None = None) -> str: ...

    def states(self, counts: Mapping[Any, int]) -> str: ...

    def duration(self, seconds: float) -> str: ...

    def progress(self, done: int, total: int) -> str: ...

    def table(
        self, head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 80, flexible: int = -1
    ) -> list[str]: ...


def screen() -> Screen:
    """The views of the surface that runs the current command."""
    lent: Any = click.get_current_context().find_root().obj
    return lent  # type: ignore[no-any-return]
