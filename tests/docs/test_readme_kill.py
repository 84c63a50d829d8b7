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
# What the README's commands do, in one process and with a key, so that doing it again is doing it once.
RUN = """
import os, perenne
from demo import add, app

if not os.path.exists("demo"):
    perenne.create("demo", app, name="Demo", specimen=True)
with perenne.open("demo", app, access="work") as engine:
    receipt = add.options(key="the answer").enqueue(2, 3)
    engine.work()
    job = engine.job(receipt.job_id)
    print(job.state, job.result, len(engine.jobs()), job.number)
"""

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


def save_program(folder: Path) -> None:
    """The program of the README, under its name."""
    found = re.search(r"^```python\n# demo\.py\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    (folder / "demo.py").write_text(found[1])


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
    save_program(tmp_path)
    killed = run(RUN, tmp_path, point)
    assert killed.returncode == -signal.SIGKILL
    assert not killed.stdout
    again = run(RUN, tmp_path)
    assert again.stdout == f"COMPLETED b'5' 1 {attempts}\n", again.stderr
