"""Writes docs/evidence/terminal.md: a newcomer's first quarter of an hour, as a terminal of each width shows it.

Ids, times, numbers of processes and paths are replaced by ones of the same width, so that the page changes only when
what is printed changes. `python tests/acceptance/record_terminal.py` writes it anew.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the terminals, when this is imported by its path

from terminals import REDRAWN, Terminal

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "terminal.md"
WIDTHS = (40, 80, 200)
HEAD = """# What a terminal shows

`python tests/acceptance/record_terminal.py` writes this page, and a test holds that it is still true.
Colours stand as `<32>…<0>`, by their numbers; ids, times, process numbers and paths are replaced by ones as wide.
"""
PROGRAM = """
from perenne import App, Context

app = App("demo")


@app.task()
def add(context: Context, a: int, b: int) -> int:
    context.log("about to add", note="a remark that is rather long, so that a narrow terminal has to break it")
    return a + b


@app.task(attempts=1)
def boom() -> None:
    raise ValueError("no such luck, and this sentence is long enough to be cut or broken")
"""


def page(folder: Path) -> str:
    """The whole page."""
    walks = [walk(folder / f"at-{width}", width, {}) for width in WIDTHS]
    return "\n".join([HEAD, *walks, walk(folder / "plain", 80, {"NO_COLOR": "1"})])


def walk(folder: Path, width: int, how: dict[str, str]) -> str:
    """What is typed and printed in one terminal."""
    folder.mkdir()
    return "\n".join(_walked(folder, width, how))


def _walked(folder: Path, width: int, how: dict[str, str]) -> Iterator[str]:
    (folder / "demo.py").write_text(PROGRAM)
    masked = _mask(folder)
    said = ", NO_COLOR" if how else ""
    yield f"## {width} columns{said}\n"
    jobs: list[str] = []
    for line in _lines(jobs):
        code, text = _run(folder, line, width, how)
        if " submit " in line and code == 0:
            jobs.append(text.split()[0])
        yield f"```text\n$ {masked(line)}\n{masked(text)}```\n\nExit code {code}.\n"


def _lines(jobs: list[str]) -> Iterator[str]:
    """What is typed; `jobs` are those that were submitted so far."""
    yield "perenne statis"
    yield "perenne init demo:app"
    yield """perenne submit demo:app add '{"a":2}'"""
    yield """perenne submit demo:app add '{"a":2,"b":3}'"""
    yield "perenne submit demo:app boom"
    yield "perenne ps"
    yield "perenne worker demo:app --until-idle"
    yield "perenne ps --watch"
    yield f"perenne show {jobs[1]}"
    yield f"perenne logs -f {jobs[0]}"
    yield f"perenne wait {jobs[0]}"
    yield f"perenne cancel {jobs[0]}"
    yield "perenne graph"
    yield "perenne stop"
    yield "perenne ps --state failed"


def _run(folder: Path, line: str, width: int, how: dict[str, str]) -> tuple[int, str]:
    terminal = Terminal(folder, tuple(shlex.split(line)[1:]), width, 40, how)
    try:
        if "--watch" in line:
            terminal.until(lambda text: text.count(REDRAWN) == 3)
            terminal.interrupt()
        code, text = terminal.end()
    finally:
        terminal.close()
    _, *pages = text.split(REDRAWN)
    shown = pages[1] + "^C\n" if pages else text  # of pages that replace each other one that stood there whole
    return code, re.sub(r"\x1b\[(\d+)m", r"<\1>", shown)


def _mask(folder: Path) -> Callable[[str], str]:
    ids: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        """The same stand-in for the same job, whole or shortened."""
        last = match[0][-4:]
        number = ids.setdefault(last, f"{len(ids) + 1}")
        shown = f"01990c5e-0000-7000-8000-{number * 12}"
        size = len(match[0])
        return shown if size == 36 else f"{shown[: size - 1 - (size - 1) // 2]}…{shown[-((size - 1) // 2) :]}"

    rules: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
        (re.escape(str(folder.resolve())), "/home/ada"),
        (r"[0-9a-f]{4,8}[0-9a-f-]*(?:…[0-9a-f-]*[0-9a-f]{4}|-[0-9a-f]{12})", named),
        (r"worker:[0-9a-f]{8}", "worker:1f2e3d4c"),
        (r"person:\w+ *", lambda match: "person:ada".ljust(len(match[0]))),
        (r"worker \d+:", "worker 4711:"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-09-26 21:00:00"),
        (r"\b\d+ s\b *", lambda match: "5 s".ljust(len(match[0]))),
        (r"\b(?:\d+ ms|\d+\.\d+ s)\b *", lambda match: "5 ms".ljust(len(match[0]))),
    ]

    def mask(text: str) -> str:
        for rule, shown in rules:
            text = re.sub(rule, shown, text)
        return re.sub(r" +$", "", text, flags=re.MULTILINE)

    return mask


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(Path(folder)), encoding="utf-8")
