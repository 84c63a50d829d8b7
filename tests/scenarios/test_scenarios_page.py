"""The page of scenarios says what the tests say: it is rendered from their docstrings and their marks.

`python tests/scenarios/test_scenarios_page.py` writes it.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # also when this file is run as a program

from scenario_list import INSTEAD, THREADS

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "scenarios.md"
BEGIN, END = "<!-- scenarios: begin -->", "<!-- scenarios: end -->"
NAME = re.compile(r"test_([cr]\d\d)_\w+")

# What issue and reference ask for: section 3 of the engines, and the reports of types S, F and L.
ASKED = [
    *[
        f"C{n:02}"
        for n in (*range(1, 9), 10, 12, *range(15, 33), 37, 38, *range(41, 51), *range(55, 59), *range(62, 86))
    ],
    *[f"R{n:02}" for n in (*range(1, 20), *range(36, 40), 46, *range(50, 55), 56)],
]


@dataclass(frozen=True)
class Scenario:
    """One test of a scenario, as its source says it."""

    id: str
    name: str
    file: str
    symptom: str
    promise: str
    expected_to_fail: str | None


def scenarios() -> list[Scenario]:
    """Every test of this folder that is named after a scenario, in the order of the files."""
    return [found for file in sorted(HERE.glob("test_*.py")) for found in _in_file(file)]


def _in_file(file: Path) -> list[Scenario]:
    found = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        named = NAME.fullmatch(node.name) if isinstance(node, ast.FunctionDef) else None
        if named and isinstance(node, ast.FunctionDef):
            first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            symptom = re.sub(r"^(Thread|Report): ", "", " ".join(first.split()))
            found.append(
                Scenario(named[1].upper(), node.name, file.name, symptom, " ".join(rest.split()), _expected(node))
            )
    return found


def _expected(test: ast.FunctionDef) -> str | None:
    """Why the test is expected to fail, or None."""
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.xfail":
            [reason] = [ast.literal_eval(keyword.value) for keyword in mark.keywords if keyword.arg == "reason"]
            return str(reason)
    return None


def rendered() -> str:
    """The generated part of the page."""
    tests = scenarios()
    lines = [
        f"{len(ASKED)} scenarios: {len(ASKED) - len(INSTEAD)} are tests, {len(INSTEAD)} are covered otherwise.",
        "",
        "| scenario | from | what was met there | what holds here | test |",
        "| --- | --- | --- | --- | --- |",
    ]
    for id in ASKED:
        mine = [test for test in tests if test.id == id]
        lines += [_row(id, test, first=test is mine[0]) for test in mine]
        lines += [f"| {id} | {THREADS[id]} | | {INSTEAD[id]} | – |"] if id in INSTEAD else []
    failing = [test for test in tests if test.expected_to_fail]
    lines += ["", "## What does not hold yet", ""]
    lines += [f"- {test.id}, `{test.name}`: {test.expected_to_fail}." for test in failing] or ["Nothing."]
    return "\n".join(lines)


def _row(id: str, test: Scenario, *, first: bool) -> str:
    promise = f"**Not yet:** {test.promise}" if test.expected_to_fail else test.promise
    symptom = test.symptom if first else ""
    return f"| {id} | {THREADS[id] if first else ''} | {symptom} | {promise} | `{test.name}` in {test.file} |"


def test_the_page_says_what_the_tests_say() -> None:
    """The table of the page is the one that the docstrings and marks of the tests make."""
    text = PAGE.read_text(encoding="utf-8")
    shown = text.partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == rendered(), "run: python tests/scenarios/test_scenarios_page.py"


def test_every_scenario_has_a_test_or_a_reason() -> None:
    """Each scenario asked for is named after its thread and has a test, or else a reason, and none beside is named."""
    tested = {test.id for test in scenarios()}
    assert set(THREADS) == set(ASKED)
    assert tested | set(INSTEAD) == set(ASKED)
    assert tested & set(INSTEAD) == set()
    assert len(ASKED) == len(set(ASKED)) == 98


def test_nine_in_ten_are_tests_that_hold() -> None:
    """At least nine in ten scenarios have a test that passes; one that is expected to fail does not count."""
    holding = {test.id for test in scenarios() if not test.expected_to_fail}
    assert len(holding) >= 0.9 * len(ASKED)


def test_every_test_names_symptom_and_promise() -> None:
    """Each docstring says what was met elsewhere, and then what holds here."""
    for test in scenarios():
        assert test.symptom, test.name
        assert test.promise, test.name


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{rendered()}\n{END}{after}", encoding="utf-8")
