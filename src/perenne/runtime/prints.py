"""What a handler in a child prints: whole lines, each with the id of its job, for several jobs print to one place.

What does not live here: what a handler tells on purpose (`context.log`).
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def labelled(job_id: str) -> Iterator[None]:
    """Meanwhile what Python prints to its standard output and error carries this id; a descriptor is left alone."""
    with contextlib.ExitStack() as held:
        for stream, redirect in (
            (sys.stdout, contextlib.redirect_stdout),
            (sys.stderr, contextlib.redirect_stderr),
        ):
            if stream is not None:
                lines = held.enter_context(Lines(stream, job_id))
                held.enter_context(redirect(lines))
        yield


class Lines(io.TextIOBase):
    """A stream that hands on whole lines only; the last one once it is left."""

    def __init__(self, to: TextIO, label: str) -> None:
        self._to, self._label, self._begun = to, label, ""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._to.isatty()

    def fileno(self) -> int:
        return self._to.fileno()

    def write(self, text: str) -> int:
        *whole, self._begun = f"{self._begun}{text}".split("\n")
        self._hand_on(whole)
        return len(text)

    def _hand_on(self, lines: list[str]) -> None:
        if lines:
            self._to.write("".join(f"{self._label}  {line}\n" for line in lines))
            self._to.flush()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, ValueError):  # a handler may have closed what it prints to
            self._hand_on([self._begun] if self._begun else [])
