"""The fixture for shared mails and photographs: given, skipped with a reason, or failed on the machines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def outcome(folder: Path, *, machines: bool) -> str:
    """The output of one test that asks for the data, in a checkout made of nothing but the fixtures."""
    tests = folder / "checkout" / "tests"
    tests.mkdir(parents=True)
    shutil.copy(CONFTEST, tests)
    (tests / "test_asks.py").write_text("def test_asks(shared_data): assert shared_data.name == 'data'")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", str(tests)]
    environment = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    environment |= {"CI": "true"} if machines else {}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    ).stdout


@pytest.mark.parametrize("machines", [True, False])
def test_data_beside_the_checkout_are_given(tmp_path: Path, machines: bool) -> None:
    """Where the data lie beside the checkout, tests get their folder."""
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert "1 passed" in outcome(tmp_path, machines=machines)


def test_absent_data_skip_with_a_reason(tmp_path: Path) -> None:
    """Where the data are absent, the test is skipped and says which folder it misses."""
    answer = outcome(tmp_path, machines=False)
    assert "1 skipped" in answer
    assert "shared/data is absent" in answer


def test_absent_data_fail_on_the_machines(tmp_path: Path) -> None:
    """On the machines an absent folder fails the test, so that a skip cannot hide there."""
    answer = outcome(tmp_path, machines=True)
    assert "1 error" in answer
    assert "shared/data is absent" in answer
