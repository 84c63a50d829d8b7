"""Commands in a real terminal of a size: what stands on it fits, is drawn anew in place, and ends at Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the terminals

import pytest
import record_terminal
from terminals import ESCAPE, LIMIT_S, REDRAWN, Terminal

import perenne
from perenne import App, Context, JobState, testing
from perenne.files import workspace
from perenne.runtime import clock
from perenne.runtime.joblog import JobLog

app = App("terminal")


@app.task()
def note(context: Context, text: str) -> str:
    """One line in the log of the job."""
    context.log(text)
    return text


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


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)  # reason: another process is observed from outside


def widest(text: str) -> int:
    return max(map(len, ESCAPE.sub("", text).splitlines()))


@pytest.mark.parametrize("words", [("ps", "--watch"), ("resources", "--watch"), ("logs", "-f", "JOB")])
def test_looking_on_ends_at_ctrl_c(
    terminal: Callable[..., Terminal], ids: list[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    """That is how a person ends it: no fault, no sentence, and the prompt stands on a line of its own."""
    words = tuple(ids[1] if word == "JOB" else word for word in words)
    if words[0] == "logs":
        JobLog(workspace.read(tmp_path / "work"), ids[1], 1, clock.SYSTEM).write("info", "a first line")
    looking = terminal(*words)
    if words[0] == "logs":
        looking.until(lambda text: "a first line" in text)
    else:
        looking.until(lambda text: text.count(REDRAWN) == 2)
    looking.interrupt()
    code, text = looking.end()
    assert code == 0
    assert "interrupted" not in text
    assert text.endswith("^C\n")


def test_ctrl_c_ends_the_waiting_and_no_job(terminal: Callable[..., Terminal], ids: list[str], tmp_path: Path) -> None:
    """`wait` says that the job is not touched, and its exit code is that of a time that is over."""
    waiting = terminal("wait", ids[1])
    until(lambda: any((tmp_path / "work" / ".perenne" / "wake").iterdir()))  # it prints nothing, and hangs up a bell
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


def test_the_recording_is_what_a_newcomer_sees(tmp_path: Path) -> None:
    """docs/evidence/terminal.md, which was looked at, holds what a terminal of 80 columns shows now, with colour.

    After a change on purpose: python tests/acceptance/record_terminal.py, and look at what changed.
    """
    assert record_terminal.walk(tmp_path / "work", 80, {}) in record_terminal.PAGE.read_text(encoding="utf-8")
