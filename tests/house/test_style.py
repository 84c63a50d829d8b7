"""What the house asks of every file: its name, its size, its first words; and what must stand in no file."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
LINES_MAX = 300
OPENING_LINES_MAX = 5
# These carry the theory of the whole and may open with a page.
OPEN_WITH_A_PAGE = {"core/states.py", "store/ledger.py", "errors.py", "crashpoints.py"}
# Written in pieces, so that this file does not name them either.
REGISTRY_HOSTS = [
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("anaconda", "org"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("proxy", "golang", "org"),
        ("maven", "apache", "org"),
    )
]
LINKED_PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/concepts.md"]


def tracked(*patterns: str) -> list[Path]:
    """Files of the working tree that git follows or would follow, by pattern; all of them without one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def named(paths: Iterator[Path] | list[Path]) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def opening_lines(source: str) -> int:
    """Lines of the docstring a module opens with; 0 when it has none."""
    return len((ast.get_docstring(ast.parse(source)) or "").splitlines())


def sleeps_without_reason(source: str) -> list[int]:
    """Line numbers of calls to `sleep` that say no `# reason:` on their line or the one above."""
    lines = ["", *source.splitlines()]
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    sleeps = [call.lineno for call in calls if ast.unparse(call.func) in {"time.sleep", "sleep"}]
    return [number for number in sleeps if "# reason:" not in lines[number - 1] + lines[number]]


def broken_links(page: Path) -> list[str]:
    """Relative links of a page that lead to no file."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return [target for target in targets if "://" not in target and not (page.parent / target).exists()]


def test_no_name_is_empty() -> None:
    """No file or folder has a name that explains nothing."""
    parts = {path: {part.split(".")[0] for part in path.relative_to(ROOT).parts} for path in tracked()}
    assert parts
    assert not named([path for path, names in parts.items() if names & EMPTY_NAMES])


def test_no_source_file_is_long() -> None:
    """A file of the package has at most 300 lines; a longer one is usually two ideas."""
    sources = tracked("src/**/*.py", "src/**/*.sql")
    assert sources
    assert not named([path for path in sources if len(path.read_text(encoding="utf-8").splitlines()) > LINES_MAX])


@pytest.mark.parametrize(
    ("source", "lines"),
    [("", 0), ("import os", 0), ('"""One."""', 1), ('"""One.\n\nThree.\n"""', 3), ("# no docstring\nx = 1", 0)],
)
def test_opening_is_counted(source: str, lines: int) -> None:
    """The opening of a module is its docstring, counted in lines of text."""
    assert opening_lines(source) == lines


def test_every_module_says_what_lives_in_it() -> None:
    """A module with code opens with a docstring of at most five lines; four of them may fill a page."""
    modules = {
        path.relative_to(ROOT / "src/perenne").as_posix(): path.read_text(encoding="utf-8")
        for path in tracked("src/**/*.py")
    }
    assert modules
    openings = {name: opening_lines(source) for name, source in modules.items() if source.strip()}
    assert not sorted(name for name, lines in openings.items() if lines == 0)
    assert not sorted(n for n, lines in openings.items() if lines > OPENING_LINES_MAX and n not in OPEN_WITH_A_PAGE)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import time\ntime.sleep(1)", [2]),
        ("from time import sleep\n\nsleep(1)", [3]),
        ("time.sleep(1)  # reason: the kernel gives no event", []),
        ("# reason: the kernel gives no event\ntime.sleep(1)", []),
        ("text = 'time.sleep(1)'", []),
    ],
)
def test_sleep_is_found(source: str, lines: list[int]) -> None:
    """A call to sleep is found wherever it stands, and excused only by a written reason."""
    assert sleeps_without_reason(source) == lines


def test_no_test_sleeps_without_a_reason() -> None:
    """Tests wait for a signal with a limit; one that sleeps says why beside it."""
    tests = tracked("tests/**/*.py", "tests/*.py")
    assert tests
    found = {path: sleeps_without_reason(path.read_text(encoding="utf-8")) for path in tests}
    assert not [f"{name}:{line}" for path, lines in found.items() for name in named([path]) for line in lines]


def test_no_registry_host_is_named() -> None:
    """No text file names the host of a package registry: the project installs from wherever pip and apt are set to."""
    pattern = re.compile("|".join(re.escape(host) for host in REGISTRY_HOSTS), re.IGNORECASE)
    assert pattern.search(f"https://{REGISTRY_HOSTS[0].upper()}/simple")
    texts = {path: path.read_bytes().decode("latin-1") for path in tracked() if path.suffix != ".eml"}
    assert not named([path for path, text in texts.items() if pattern.search(text)])


def test_readme_has_the_two_commands() -> None:
    """The README shows the two commands a stranger types, each on a line of its own."""
    lines = {line.split("#")[0].strip() for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()}
    assert {"make demo", "make test"} <= lines


@pytest.mark.parametrize("page", LINKED_PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """A relative link of our own pages leads to a file of the project."""
    assert not broken_links(ROOT / page)


def test_broken_link_is_found(tmp_path: Path) -> None:
    """A link to a missing file is found; anchors and links to the outside are left alone."""
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#part) [b](missing.md) [c](https://example.org/x) [d](#part)")
    assert broken_links(page) == ["missing.md"]


@pytest.mark.parametrize(
    ("page", "lines_max"), [("README.md", 120), ("ARCHITECTURE.md", 150), ("CONTRIBUTING.md", 120)]
)
def test_pages_stay_short(page: str, lines_max: int) -> None:
    """The pages at the root can be read in one go."""
    assert 0 < len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= lines_max
