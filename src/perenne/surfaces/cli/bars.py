"""Some lines that stand below what was said and are drawn again in a terminal; elsewhere they are printed when asked.

What does not live here: what the lines say.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

EVERY_S = 0.1


class Bars:
    """The lines stand until the next ones, or until something is said above them."""

    def __init__(self) -> None:
        self._live = sys.stdout is not None and sys.stdout.isatty()
        self._drawn, self._next_at = 0, 0.0

    def show(self, lines: Sequence[str]) -> None:
        """For who looks on: in a terminal, ten times a second at most."""
        if self._live and time.monotonic() >= self._next_at:
            self._clear()
            self._put(lines)
            self._drawn, self._next_at = len(lines), time.monotonic() + EVERY_S

    def say(self, sentence: str, lines: Sequence[str] = ()) -> None:
        """A sentence that stays, and below it the lines as they are now."""
        self._clear()
        self._put([sentence, *lines])
        self._next_at = 0.0

    def _clear(self) -> None:
        if self._drawn:
            click.echo(f"\x1b[{self._drawn}A\x1b[J", nl=False)
            self._drawn = 0

    @staticmethod
    def _put(lines: Sequence[str]) -> None:
        click.echo("\n".join(lines))
