"""Pages name only what exists, and decisions keep their form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
# Where a page says which names the plan had, they need not exist.
SPEAKS_OF_THE_PLAN = "0009-where-the-plan-changed.md"


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def links_of(text: str) -> list[str]:
    """Targets of relative links, without their anchors."""
    return [target for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in target]


def paths_of(text: str) -> list[str]:
    """What looks like a path of ours in code marks: with a slash and a known end, or a folder with a slash behind."""
    marked = re.findall(r"`([\w./-]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    return [path for path in marked if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/([\w-]+\.(py|sql|md|toml|json))?", path)]


def exists(path: str) -> bool:
    """Whether the path leads somewhere from the root, the package, or the application."""
    places = (ROOT, ROOT / "src" / "perenne", ROOT / "src" / "perenne" / "apps" / "evidence")
    return any((place / path).exists() for place in places)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link leads to a file of the project."""
    assert not [link for link in links_of(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != SPEAKS_OF_THE_PLAN], ids=named)
def test_every_path_named_exists(page: Path) -> None:
    """A file or folder that a page names in code marks is there."""
    text = page.read_text(encoding="utf-8")
    assert not [path for path in paths_of(text) if not exists(path)]


def test_paths_are_found() -> None:
    """Files and folders with a slash are taken for paths; names, calls and blocks of code are not."""
    text = "`core/states.py` `docs/` `tests/unit/` `perenne.open` `a/b` `states.py`\n```\n`x/y.py`\n```\n"
    assert paths_of(text) == ["core/states.py", "docs/", "tests/unit/"]


@pytest.mark.parametrize("page", DECISIONS, ids=named)
def test_a_decision_has_its_parts(page: Path) -> None:
    """Context, choice and what was given up, in at most 60 lines, under the number of its file name."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert lines[0].startswith(f"# {page.name[:4]} · ")
    assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Choice", "## What we gave up"]


def test_decisions_are_numbered_and_listed() -> None:
    """The numbers run from 0001 without a gap, and the list of decisions has each page once."""
    assert [page.name[:4] for page in DECISIONS] == [f"{number:04}" for number in range(1, len(DECISIONS) + 1)]
    listed = links_of((ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8"))
    assert listed == [page.name for page in DECISIONS]


def defined_in(module: Path) -> Iterator[str]:
    """`module.function`, `Class.method` and `Class.field` of one file, in lower case."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield f"{module.stem}.{node.name}".lower()
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield f"{node.name}.{part.name}".lower()
                if isinstance(part, ast.AnnAssign):
                    yield f"{node.name}.{ast.unparse(part.target)}".lower()


def test_the_road_of_a_job_names_real_functions() -> None:
    """Each dotted name on the road of one job is a function, a method or a field of the package."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    road = page.split("## The road of one job")[1].split("```")[1]
    names = set(re.findall(r"\b[A-Za-z]\w+\.\w+", road))
    defined = {name for module in (ROOT / "src" / "perenne").rglob("*.py") for name in defined_in(module)}
    assert len(names) > 10
    assert not sorted(name for name in names if name.lower() not in defined)
