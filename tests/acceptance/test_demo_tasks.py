"""The demonstration of checkpoints, from outside: what is disturbed goes on from where it was, and ends right."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

LIMIT_S = 240
PRIMES_BELOW_1_500_000 = "114,155"  # as tables of the prime counting function have it


@pytest.mark.timeout(LIMIT_S + 30)
def test_three_jobs_are_paused_killed_and_cancelled() -> None:
    """Each goes on from its last checkpoint, results are right, and a pipe gets plain lines of at most 80 columns."""
    ended = subprocess.run(
        [sys.executable, "-m", "perenne", "demo", "tasks"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in ended.stdout
    paused_at = int(re.findall(r"job 1 is paused after chunk (\d+)", ended.stdout)[0])
    for said in ("job 1 is resumed", "the worker is killed", "job 3 is cancelled", "[######"):
        assert said in ended.stdout

    paused, killed, cancelled = lines[-3:]
    assert re.fullmatch(rf"1  COMPLETED  3 attempts, from chunk 0, {paused_at}, \d+; .*", paused)
    assert re.fullmatch(r"2  COMPLETED  2 attempts, from chunk 0, \d+; .*", killed)
    assert re.fullmatch(r"3  CANCELLED  2 attempts, from chunk 0, \d+", cancelled)
    assert all(line.endswith(f"; {PRIMES_BELOW_1_500_000} primes, as undisturbed") for line in (paused, killed))
    went_on = [list(map(int, re.findall(r"\d+", line.split("chunk")[1].split(";")[0]))) for line in lines[-3:]]
    assert all(chunks == sorted(chunks) and chunks[1] > 0 for chunks in went_on)
