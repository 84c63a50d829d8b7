"""The example of an application is a project of its own: its tests pass, and the fixtures say what is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "taskapp"
SLOW = ("perenne.testing", "perenne.wiring", "perenne.core", "apsw", "msgspec")

TWO = """
import pytest, perenne
app = perenne.App("two", one_worker=True)
@app.task(attempts=1)
def fail(why: str) -> None:
    raise RuntimeError(why)
@app.task()
def work(n: int) -> int:
    return n
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example, so that nothing is left in the tree."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "taskapp", ignore=shutil.ignore_patterns("__pycache__")))


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PERENNE"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_the_tests_of_the_example_pass(project: Path) -> None:
    """In another folder, with the fixtures that are installed, each of its tests passes."""
    ended = run_pytest(project)
    assert (ended.returncode, "failed" in ended.stdout) == (0, False), ended.stdout + ended.stderr
    assert "passed" in ended.stdout


def test_pytest_starts_without_the_engine(tmp_path: Path) -> None:
    """A project that does not use the fixtures loads nothing of the engine for them."""
    (tmp_path / "test_none.py").write_text(
        f"import sys\ndef test_none():\n    assert 'perenne.pytest_plugin' in sys.modules\n"
        f"    assert not [name for name in sys.modules if name.startswith({SLOW!r})]\n"
    )
    ended = run_pytest(tmp_path)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    ("setting", "test", "said"),
    [
        ("", "def test_it(perenne_engine): pass", 'write perenne_app = "module:name"'),
        ("perenne_app = nowhere:app", "def test_it(perenne_engine): pass", "No module named 'nowhere'"),
        ("perenne_app = two:none", "def test_it(perenne_engine): pass", "has no attribute 'none'"),
        (
            "perenne_app = two:app",
            "def test_it(perenne_drain, perenne_result):\n    job = two.fail.enqueue('the disk is away')\n"
            "    perenne_drain()\n    perenne_result(job)",
            "is FAILED (attempts_exhausted) and not COMPLETED",
        ),
        (
            "perenne_app = two:app",
            "def test_it(perenne_engine, perenne_result):\n    perenne_result(two.work.enqueue(1))",
            "nobody has worked since; drain()",
        ),
        (
            "perenne_app = two:app",
            "def test_it(perenne_workspace, perenne_crash):\n    perenne_crash('publish.renamed')",
            "publish.renamed: the process ended with 0 instead",
        ),
        (
            "perenne_app = two:app",
            "def test_it(perenne_workspace, perenne_crash):\n    perenne_crash('publish.named')",
            "crash point: 'publish.named' is none",
        ),
        (
            "perenne_app = two:app",
            "def test_it(perenne_workspace, perenne_crash):\n    perenne_crash('claim.written', lambda engine: None)",
            "a new process cannot import it",
        ),
        (
            "perenne_app = two:app",
            "def test_it(perenne_engine, perenne_crash):\n    perenne_crash('claim.written')",
            "worker.lock",
        ),
    ],
)
def test_a_failure_says_what_is_wrong(tmp_path: Path, setting: str, test: str, said: str) -> None:
    """A fixture that cannot be made, a job without a result and a crash that did not come are told in words."""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{setting}\n")
    (tmp_path / "two.py").write_text(TWO)
    (tmp_path / "test_two.py").write_text(f"import two\n{test}\n")
    ended = run_pytest(tmp_path)
    assert ended.returncode == 1, ended.stdout
    assert said in ended.stdout, ended.stdout


def test_work_of_ones_own_is_killed(tmp_path: Path) -> None:
    """A function at the top of a test module runs in the process that dies, with an engine."""
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nperenne_app = two:app\n")
    (tmp_path / "two.py").write_text(TWO)
    (tmp_path / "test_two.py").write_text(
        "import two, perenne\n"
        "def submit_twice(engine):\n    print('here'); two.work.enqueue(1); two.work.enqueue(2)\n"
        "def test_it(perenne_app, perenne_workspace, perenne_crash):\n"
        "    crash = perenne_crash('submit.written:2', submit_twice)\n"
        "    assert crash.point == 'submit.written:2'\n"
        "    with perenne.open(perenne_workspace, perenne_app) as engine:\n"
        "        assert [job.input for job in engine.jobs()] == [b'{\"n\":1}']\n"
    )
    ended = run_pytest(tmp_path)
    assert ended.returncode == 0, ended.stdout
