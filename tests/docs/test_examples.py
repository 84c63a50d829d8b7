"""Every program of the pages is saved, run and compared with what the page says it prints.

In a page, a block `python` opens with the name of its file, a block `sh` is run, and a block `text` after it is what
was printed. Blocks without a language are for the eye and are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
RUN_S = 60


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)]


def name_of(program: str) -> str:
    """The file name in the first line of a program."""
    found = re.match(r"# (\w+\.py)\n", program)
    assert found, f"a program must open with the name of its file, as in `# doubling.py`: {program[:60]!r}"
    return found[1]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the lines of a shell block, with our programs first; the first line that fails ends it."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_is_what_happens(page: str, tmp_path: Path) -> None:
    """The programs of a page run as they stand, and print what the page says."""
    printed = None
    for language, text in blocks_of((ROOT / page).read_text(encoding="utf-8")):
        if language == "python":
            (tmp_path / name_of(text)).write_text(text, encoding="utf-8")
        elif language == "sh":
            assert not printed, f"{page}: this was printed and is not shown: {printed}"
            ended = run(text, tmp_path)
            assert ended.returncode == 0, f"{page}: {text}\n{ended.stderr}"
            printed = ended.stdout
        elif language == "text":
            assert printed == text
            printed = None
    assert not printed, f"{page}: this was printed and is not shown: {printed}"


@pytest.mark.parametrize("page", PAGES)
def test_every_program_is_run(page: str) -> None:
    """A page that shows a program also shows how it is run."""
    blocks = blocks_of((ROOT / page).read_text(encoding="utf-8"))
    shown = {name_of(text) for language, text in blocks if language == "python"}
    commands = "\n".join(text for language, text in blocks if language == "sh")
    run = set(re.findall(r"\w+\.py", commands)) | {
        f"{name}.py" for name in re.findall(r"perenne worker (\w+):", commands)
    }
    assert shown == run


def test_there_are_programs() -> None:
    """The README and the page on apps do show programs; an empty harvest would prove nothing."""
    for page in ("README.md", "docs/writing-an-app.md"):
        languages = [block.language for block in blocks_of((ROOT / page).read_text(encoding="utf-8"))]
        assert {"python", "sh", "text"} <= set(languages), page


def test_blocks_are_found() -> None:
    """Blocks are taken with their language; one without a language has an empty one."""
    page = "a\n```python\n# a.py\nx = 1\n```\nb\n```\nmake\n```\n```text\nout\n```\n"
    assert blocks_of(page) == [Block("python", "# a.py\nx = 1\n"), Block("", "make\n"), Block("text", "out\n")]
