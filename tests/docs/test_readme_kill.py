"""The README says what a `kill -9` in the middle of its two commands leaves; here each is killed at each place."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"
SUBMIT = ["submit", "shop:app", "add", '{"a": 2, "b": 3}', "--key", "the answer"]
WORK = ["worker", "shop:app", "--until-idle"]

# Where it dies, and how many attempts the job has had when both were said again.
BEFORE_SUBMIT_RETURNED = ["submit.written", "submit.committed", "submit.woken"]
BEFORE_THE_CLAIM = ["claim.written"]
WHILE_THE_HANDLER_RAN = [
    "claim.committed",
    "run.looked_up",
    "run.executed",
    "acknowledge.begun",
    "acknowledge.written",
]
AFTER_THE_OUTCOME = ["acknowledge.committed", "acknowledge.told"]
PLACES = [
    *((point, 1) for point in BEFORE_SUBMIT_RETURNED + BEFORE_THE_CLAIM + AFTER_THE_OUTCOME),
    *((point, 2) for point in WHILE_THE_HANDLER_RAN),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The module of the README, and a specimen workspace for it, in which crash points may be armed."""
    found = re.search(
        r"^```python\n(# shop\.py\n.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found
    (tmp_path / "shop.py").write_text(found[1])
    code = "import perenne, shop; perenne.create('shop', shop.app, name='Shop', specimen=True)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


def say(words: list[str], folder: Path, point: str | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERENNE_")}
    return subprocess.run(
        [sys.executable, "-m", "perenne", *words],
        cwd=folder,
        env={**kept, **({"PERENNE_CRASH_POINT": point} if point else {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_commands_are_those_of_the_readme() -> None:
    """What is killed here is what the README says."""
    text = README.read_text(encoding="utf-8")
    assert "perenne worker shop:app --until-idle" in text
    assert """perenne submit shop:app add '{"a": 2, "b": 3}' --key "the answer\"""" in text


@pytest.mark.parametrize(("point", "attempts"), PLACES)
def test_the_commands_are_killed_and_said_again(point: str, attempts: int, folder: Path) -> None:
    """Killed at any place, saying both again ends with the one job completed, after as many attempts as it says."""
    first = say(SUBMIT, folder, point if point in BEFORE_SUBMIT_RETURNED else None)
    if point in BEFORE_SUBMIT_RETURNED:
        assert (first.returncode, first.stdout) == (-signal.SIGKILL, "")
    else:
        assert say(WORK, folder, point).returncode == -signal.SIGKILL
    for words in (SUBMIT, WORK):
        ended = say(words, folder)
        assert ended.returncode == 0, ended
    (job,) = json.loads(say(["ps", "--json"], folder).stdout)["jobs"]
    page: dict[str, Any] = json.loads(say(["show", job["id"], "--json"], folder).stdout)
    assert (page["state"], page["result"], page["number"]) == ("COMPLETED", 5, attempts)
