"""The README says what a `kill -9` in the middle of its program leaves; here the program is killed at each place."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
LOOK = "\n    print(len(engine.jobs()), engine.job(receipt.job_id).number)\n"

# Where it dies, and how many attempts the job has had when the next run is over.
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


def program() -> str:
    """The program of the README in a specimen workspace, with a line more that counts jobs and attempts."""
    found = re.search(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    specimen = found[1].replace('name="Doubling"', 'name="Doubling", specimen=True')
    assert specimen != found[1]
    return specimen.rstrip("\n") + LOOK


def run(code: str, folder: Path, point: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PERENNE_CRASH_POINT": point} if point else {})}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("point", "attempts"), PLACES)
def test_the_program_is_killed_and_run_again(point: str, attempts: int, tmp_path: Path) -> None:
    """Killed at any place, the next run ends with the one job completed, after as many attempts as the README says."""
    killed = run(program(), tmp_path, point)
    assert killed.returncode == -signal.SIGKILL
    assert not killed.stdout
    again = run(program(), tmp_path)
    assert again.stdout == f"COMPLETED b'42'\n1 {attempts}\n", again.stderr
