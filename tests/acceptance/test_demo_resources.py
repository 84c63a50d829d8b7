"""The demonstration of the governor, from outside: it ends, also beside busy neighbours, and its result is right."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

LIMIT_S = 240


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perenne", "demo", "resources", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)


@pytest.mark.timeout(LIMIT_S + 30)
def test_three_jobs_share_a_bounded_memory() -> None:
    """One is paused, their worker is killed, all end; no peak exceeds what was said, and the results are right."""
    ended = demo("--memory", "320MiB")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("result as undisturbed") == 3
    assert "the first job is paused after" in ended.stdout
    assert "the worker is killed" in ended.stdout
    peaks = [float(size) for size in re.findall(r"peak ([\d.]+) MiB", ended.stdout)]
    assert len(peaks) == 3
    assert all(0 < peak <= 64 + 4 * 32 + 32 for peak in peaks)  # and one piece between two batches
    reserved = re.search(r"at most ([\d.]+) MiB of 320.0 MiB were reserved", ended.stdout)
    assert reserved is not None
    assert 0 < float(reserved[1]) <= 320
    assert "0 reservations left" in ended.stdout


@pytest.mark.parametrize("memory", ["", "600", "12MiB", "-600MiB", "nan GiB", "9999999GiB"])
def test_a_memory_that_makes_no_sense_is_refused(memory: str) -> None:
    """The sentence names the field, the value and its limit, and nothing begins."""
    ended = demo("--memory", memory)
    assert ended.returncode == 2
    assert ended.stderr.startswith("perenne: memory: ")
    assert "the limit is 320.0 MiB to" in ended.stderr
    assert ended.stdout == ""
