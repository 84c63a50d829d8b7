"""Processes that all write at once are served in turn, near enough: nobody starves, and nobody is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

WRITER = """
import sys, time
from pathlib import Path
from perenne.errors import StoreBusy
from perenne.store.sqlite.driver import SQLiteDriver

path, workspace, name, run_s = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
store = SQLiteDriver(path, workspace=workspace)
store.write(lambda tx: tx.run("insert_queue", name=name, capacity=1))
print("ready", flush=True)
sys.stdin.readline()
commits = refusals = 0
longest_s = 0.0
ends_at = time.monotonic() + run_s
while (began := time.monotonic()) < ends_at:
    try:
        store.write(lambda tx: tx.run("set_queue_controls", name=name, paused=commits % 2, stopped=0))
        commits += 1
    except StoreBusy:
        refusals += 1
    longest_s = max(longest_s, time.monotonic() - began)
print(commits, refusals, longest_s, flush=True)
store.close()
"""


@contextmanager
def started(path: Path, name: str, run_s: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(path), "11111111-1111-4111-8111-111111111111", name, str(run_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("processes", "run_s"), [(4, 1.5), (16, 4.0)])
def test_no_process_starves_r13(path: Path, processes: int, run_s: float) -> None:
    """All write as fast as they can; none fails within its deadline, and the least gets a tenth of the mean."""
    with ExitStack() as stack:
        writers = [stack.enter_context(started(path, f"queue {n}", run_s)) for n in range(processes)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        answers = [writer.communicate(timeout=60)[0].split() for writer in writers]
    commits = sorted(int(answer[0]) for answer in answers)
    refusals = sum(int(answer[1]) for answer in answers)
    longest_s = max(float(answer[2]) for answer in answers)
    mean = sum(commits) / processes
    print(f"{processes} processes: commits {commits}, mean {mean:.0f}, refused {refusals}, longest {longest_s:.2f} s")
    assert refusals == 0
    assert commits[0] >= mean / 10
