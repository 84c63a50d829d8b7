"""`.ci/run` fails when a section fails and when no test ran; tried on a folder with stand-ins for the make targets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAULTS = {
    "failed": "def test_one(): assert False",
    "skipped": "import pytest\n@pytest.mark.skip(reason='tried')\ndef test_one(): pass",
    "broken": "import missing_module_of_this_name",
    "none": "",
}
PASSED = 'tests="1" skipped="0" failures="0" errors="0"'

MAKEFILE = """
check:
\t@exit {check}
test crash:
\t@mkdir -p build/reports
\t@test -f test_$@.py || cp passed.xml build/reports/$@.xml
\t@test ! -f test_$@.py || {python} -m pytest -p no:cacheprovider -q --junitxml=build/reports/$@.xml test_$@.py{mask}
"""


def report_of(attributes: str) -> str:
    return f'<?xml version="1.0"?><testsuites><testsuite name="pytest" {attributes}></testsuite></testsuites>'


def count(report: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / ".ci/counted", report], capture_output=True, text=True, timeout=60, check=False
    )


def run_machines(
    folder: Path, tests: dict[str, str] | None = None, *, check: int = 0, mask: str = ""
) -> subprocess.CompletedProcess[str]:
    """`.ci/run` of this project in a folder whose sections run the given test files, or pass where none is given."""
    (folder / ".ci").mkdir()
    for name in ("run", "counted"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci" / name)
    (folder / "Makefile").write_text(MAKEFILE.format(check=check, python=sys.executable, mask=mask))
    (folder / "passed.xml").write_text(report_of(PASSED))
    for section, text in (tests or {}).items():
        (folder / f"test_{section}.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        ["bash", folder / ".ci/run"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("attributes", [PASSED, 'tests="3" skipped="2"'])
def test_report_with_a_test_that_ran_counts(tmp_path: Path, attributes: str) -> None:
    """A report counts when at least one test ran and none failed."""
    report = tmp_path / "report.xml"
    report.write_text(report_of(attributes))
    answer = count(report)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (report_of('tests="0" skipped="0" failures="0" errors="0"'), "counts no test that ran"),
        (report_of('tests="2" skipped="2" failures="0" errors="0"'), "counts no test that ran"),
        (report_of('tests="2" skipped="0" failures="1" errors="0"'), "counts 1 failed test"),
        (report_of('tests="2" skipped="0" failures="0" errors="1"'), "counts 1 failed test"),
        (report_of('tests="many"'), "no report of a finished run"),
        ("<testsuites>", "no report of a finished run"),
        ("", "no report of a finished run"),
    ],
)
def test_report_without_proof_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    """A report with failures, without a test that ran, or cut off is refused with a sentence."""
    report = tmp_path / "report.xml"
    report.write_text(text)
    answer = count(report)
    assert answer.returncode == 1
    assert sentence in answer.stderr


def test_missing_report_is_refused(tmp_path: Path) -> None:
    """Without a report nothing is proved."""
    answer = count(tmp_path / "absent.xml")
    assert answer.returncode == 1
    assert "no report of a finished run" in answer.stderr


def test_machines_accept_when_all_pass(tmp_path: Path) -> None:
    """With all sections green `.ci/run` succeeds, and shows each section."""
    answer = run_machines(tmp_path, {"test": "def test_one(): pass"})
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert [line.split(" (")[0] for line in answer.stdout.splitlines() if line.startswith("== ")] == [
        "== make check",
        "== make test",
        "== make crash",
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_machines_refuse_a_section_without_proof(tmp_path: Path, fault: str) -> None:
    """A test that fails, cannot be loaded, is only skipped or is not there fails `.ci/run`, which names the section."""
    answer = run_machines(tmp_path, {"test": FAULTS[fault]})
    assert answer.returncode == 1
    assert "make test: " in answer.stdout.partition("FAILED")[2]


@pytest.mark.parametrize("fault", ["failed", "none"])
def test_machines_refuse_crash_tests_without_proof(tmp_path: Path, fault: str) -> None:
    """The crash tests are counted like the others."""
    answer = run_machines(tmp_path, {"crash": FAULTS[fault]})
    assert answer.returncode == 1
    assert "make crash: " in answer.stdout.partition("FAILED")[2]


@pytest.mark.parametrize("fault", ["failed", "none"])
def test_machines_refuse_even_when_the_exit_code_is_lost(tmp_path: Path, fault: str) -> None:
    """The count of the report stands on its own: a swallowed exit code of pytest hides nothing."""
    answer = run_machines(tmp_path, {"test": FAULTS[fault]}, mask=" || true")
    assert answer.returncode == 1


def test_machines_refuse_failed_checks(tmp_path: Path) -> None:
    """A failed check fails `.ci/run`, and the tests are still run and shown."""
    answer = run_machines(tmp_path, check=3)
    assert answer.returncode == 1
    assert "== make crash" in answer.stdout
    assert "make check: exit code 2" in answer.stdout


def test_help_lists_every_command() -> None:
    """`make` alone lists the commands that the README and CONTRIBUTING name."""
    answer = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    listed = {line.split()[1] for line in answer.stdout.splitlines()}
    assert listed >= {"help", "demo", "test", "check", "crash", "bench", "docs", "setup-system", "ci", "clean"}


def test_make_crash_runs_every_crash_test() -> None:
    """Whatever is left out of `make test` as a crash test lies in a folder that `make crash` names."""
    said = subprocess.run(["make", "-n", "crash"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    folders = {ROOT / word for word in said.stdout.split() if word.startswith("tests/")}
    marked = [path for path in (ROOT / "tests").rglob("*.py") if "mark.crash" in path.read_text(encoding="utf-8")]
    assert len(marked) > 1
    assert [path for path in marked if path != Path(__file__) and not folders & set(path.parents)] == []
