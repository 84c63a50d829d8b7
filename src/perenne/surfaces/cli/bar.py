"""A line on the standard error that says how far long work is: drawn again in a terminal, seldom elsewhere."""

from __future__ import annotations

import sys
import time

from perenne.surfaces import views
from perenne.surfaces.cli import options

EVERY_S = 0.1  # in a terminal
SELDOM_S = 5.0  # in a file or a pipe


class Bar:
    """The last thing said stands until the next."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._drawn = self._said = False
        self._next_at = time.monotonic() + (0.0 if self._live else SELDOM_S)

    def show(self, done: int, total: int) -> None:
        """So much of the total (0: nobody knows it) is done."""
        if time.monotonic() >= self._next_at:
            self._draw(views.bar(done, total, options.width() - 1))

    def say(self, sentence: str) -> None:
        """Something that must be seen at once, such as why it does not go on; in a file the first time, then seldom."""
        if self._live or not self._said or time.monotonic() >= self._next_at:
            self._draw(sentence)
            self._said = True

    def clear(self) -> None:
        """Before something else is said."""
        if self._drawn:
            self._put("\r\x1b[K")
            self._drawn = False

    def _draw(self, text: str) -> None:
        self._put(f"\r\x1b[K{views.shorten(text, options.width() - 1)}" if self._live else f"{text}\n")
        self._drawn = self._live
        self._next_at = time.monotonic() + (EVERY_S if self._live else SELDOM_S)

    @staticmethod
    def _put(text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
