"""A command in a real terminal of a size, and what it prints there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

LIMIT_S = 60.0
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
REDRAWN = "\x1b[H\x1b[J"
# The terminal becomes that of the new session, so that its Ctrl-C is a signal.
BEGIN = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("perenne", run_name="__main__", alter_sys=True)
"""


class Terminal:
    """A command that has a terminal for itself, of so many columns and rows."""

    def __init__(self, folder: Path, words: tuple[str, ...], columns: int, rows: int, environment: dict[str, str]):
        self._parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        left_out = ("PERENNE_", "COLUMNS", "LINES", "NO_COLOR")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, *words],
            cwd=folder,
            env=kept | {"TERM": "xterm"} | environment,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
        )
        os.close(child)
        self.text = ""

    def until(self, holds: Callable[[str], bool]) -> str:
        """All that was printed, once it holds."""
        deadline = time.monotonic() + LIMIT_S
        while not holds(self.text):
            assert time.monotonic() < deadline, self.text
            if not self._read():
                break
        assert holds(self.text), self.text
        return self.text

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self._parent, b"\x03")

    def end(self) -> tuple[int, str]:
        """Exit code, and all that was printed."""
        deadline = time.monotonic() + LIMIT_S
        while self._read():
            assert time.monotonic() < deadline, self.text
        return self.process.wait(LIMIT_S), self.text

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._parent)

    def _read(self) -> bool:
        if not select.select([self._parent], [], [], 1.0)[0]:
            return True
        try:
            piece = os.read(self._parent, 1 << 16)
        except OSError:
            return False  # the other end was closed
        self.text += piece.decode().replace("\r\n", "\n")
        return bool(piece)
