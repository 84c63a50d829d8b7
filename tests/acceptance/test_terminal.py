"""Commands in a real terminal of a size: what stands on it fits, is drawn anew in place, and ends at Ctrl-C."""

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
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import perenne
from perenne import App, Context, JobState, testing

LIMIT_S = 60.0
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
REDRAWN = "\x1b[H\x1b[J"

app = App("terminal")


@app.task()
def note(context: Context, text: str) -> str:
    """One line in the log of the job."""
    context.log(text)
    return text


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


# The terminal becomes that of the new session, so that its Ctrl-C is a signal.
BEGIN = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("perenne", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*words: str, columns: int = 80, rows: int = 24, **environment: str) -> Terminal:
        opened.append(Terminal(tmp_path, words, columns, rows, environment))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    """Jobs of a workspace below the folder: one is done, the others wait."""
    root = testing.workspace(tmp_path / "work", app)
    with perenne.open(root, app, access="work") as engine:
        done = note.enqueue("said").job_id
        testing.drain(engine)
        assert engine.job(done).state is JobState.COMPLETED
        return [done, *(note.enqueue(f"number {number}").job_id for number in range(30))]


def widest(text: str) -> int:
    return max(map(len, ESCAPE.sub("", text).splitlines()))


@pytest.mark.parametrize("words", [("ps", "--watch"), ("resources", "--watch"), ("logs", "-f", "JOB")])
def test_looking_on_ends_at_ctrl_c(terminal: Callable[..., Terminal], ids: list[str], words: tuple[str, ...]) -> None:
    """That is how a person ends it: no fault, no sentence, and the prompt stands on a line of its own."""
    words = tuple(ids[1] if word == "JOB" else word for word in words)
    looking = terminal(*words)
    if words[0] == "logs":
        time.sleep(1.0)  # reason: there is nothing to be printed yet
    else:
        looking.until(lambda text: text.count(REDRAWN) == 2)
    looking.interrupt()
    code, text = looking.end()
    assert code == 0
    assert "interrupted" not in text
    assert text.endswith("^C\n")


def test_ctrl_c_ends_the_waiting_and_no_job(terminal: Callable[..., Terminal], ids: list[str]) -> None:
    """`wait` says that the job is not touched, and its exit code is that of a time that is over."""
    waiting = terminal("wait", ids[1])
    time.sleep(1.0)  # reason: who waits prints nothing
    waiting.interrupt()
    code, text = waiting.end()
    assert code == 3
    assert f"perenne: the job goes on; look with `perenne show {ids[1]}`\n" in text


def test_ctrl_c_drains_a_worker(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    """The first Ctrl-C ends a worker in order."""
    (tmp_path / "shop.py").write_text(
        "from perenne import App\napp = App('shop')\n@app.task()\ndef nothing() -> None: ...\n"
    )
    worker = terminal("worker", "shop:app")
    worker.until(lambda text: "until SIGTERM or Ctrl-C" in text)
    worker.interrupt()
    code, text = worker.end()
    assert (code, "ended 0 attempts" in text) == (0, True), text


@pytest.mark.parametrize("command", ["ps", "resources"])
@pytest.mark.parametrize("how", [{}, {"NO_COLOR": "1"}])
def test_a_page_is_drawn_anew_in_place(
    terminal: Callable[..., Terminal], ids: list[str], command: str, how: dict[str, str]
) -> None:
    """With and without colour; a page that is longer than the terminal is cut, so that its head stays where it is."""
    looking = terminal(command, "--watch", rows=12, **how)
    pages = looking.until(lambda text: text.count(REDRAWN) == 3).split(REDRAWN)[1:3]
    assert all(page.count("\n") < 12 for page in pages)
    if how:
        assert "\x1b" not in pages[0]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_page_of_jobs_fits(terminal: Callable[..., Terminal], ids: list[str], columns: int) -> None:
    """In a narrow terminal ids are shortened, in a wide one they stand whole, and states are always whole."""
    code, text = terminal("ps", "-n", "50", columns=columns).end()
    table = text.split("\n\n")[1]
    assert code == 0
    assert widest(table) <= columns
    assert (ids[0] in text) == (columns >= 80)
    assert "COMPLETED" in text


@pytest.mark.parametrize("columns", [40, 80])
def test_a_refusal_is_broken_at_words(terminal: Callable[..., Terminal], ids: list[str], columns: int) -> None:
    """A long sentence is one line in a pipe, and lines of whole words in a terminal."""
    code, text = terminal("statis", columns=columns).end()
    assert code == 2
    assert widest(text) <= columns
    assert " known are artefact, backup, cancel, completion, demo, " in " ".join(text.split())
