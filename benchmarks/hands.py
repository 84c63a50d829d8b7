"""`python hands.py ROOT VFS SLOTS`: the worker process of the benchmarks that need more than one; it says what happens.

Lines on its standard output: `ready PID`, `started JOB ATTEMPT NANOSECONDS`, `left JOB NANOSECONDS`, `ended JOB`; the
clock is CLOCK_MONOTONIC, which all processes of a machine share. VFS is `-` for the machine's own disk.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from rivals import JOBS_AT_MOST, KIND, join
from slow_disk import SlowDisk

from perenne import App, Context, Kind

LIMIT_S = 60.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def stamp(context: Context, input: str) -> None:
    """Say when it started."""
    _say_started(context)


def hold(context: Context, gate: str) -> None:
    """Say when it started, then wait at boundaries for the file `gate`."""
    _say_started(context)
    while not os.path.exists(gate):
        context.boundary()
        time.sleep(0.005)  # the work of this handler is to wait


def step(context: Context, step_ms: int) -> None:
    """Say when it started, walk from boundary to boundary, and say when one of them ended it."""
    _say_started(context)
    try:
        while True:
            time.sleep(step_ms / 1000)  # the work of this handler: a boundary ends it, and nothing else
            context.boundary()
    finally:
        now_ns = time.monotonic_ns()
        _say("left", context.job_id, now_ns)


def _say_started(context: Context) -> None:
    now_ns = time.monotonic_ns()
    _say("started", context.job_id, context.attempt, now_ns)


def _say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


STAMP = Kind("bench.stamp", 1, stamp, str)
HOLD = Kind("bench.hold", 1, hold, str, max_attempts=5)
STEP = Kind("bench.step", 1, step, int)
APP = App("bench", [KIND, STAMP, HOLD, STEP], queues={"default": JOBS_AT_MOST})


class WorkerProcess:
    """A worker in a process of its own; every wait has a limit."""

    def __init__(self, root: Path, vfs: str | None = None, slots: int = 1) -> None:
        command = [sys.executable, __file__, str(root), vfs or "-", str(slots)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.out = self._process.stdout.fileno()
        self._lines: deque[list[str]] = deque()
        self._rest = b""
        self.pid = int(self.hear("ready")[0])

    def hear(self, word: str, job: str | None = None, limit_s: float = LIMIT_S) -> list[str]:
        """What follows the word on the next line that begins with it (and names the job); others are passed over."""
        deadline = time.monotonic() + limit_s
        while True:
            while self._lines:
                words = self._lines.popleft()
                if words[0] == word and job in (None, words[1]):
                    return words[1:]
            if time.monotonic() > deadline:
                raise TimeoutError(f"worker {self._process.pid} did not say {word!r} in {limit_s:g} s")
            self._lines += self.read(deadline - time.monotonic())

    def read(self, timeout_s: float) -> list[list[str]]:
        """The lines that nobody has taken yet; waits for one at most so long."""
        if self._lines:
            taken, self._lines = list(self._lines), deque()
            return taken
        readable, _, _ = select.select([self.out], [], [], max(timeout_s, 0.0))
        piece = os.read(self.out, 65_536) if readable else b""
        if readable and not piece:
            raise ChildProcessError(f"worker {self._process.pid} ended with {self._process.wait(LIMIT_S)}")
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [line.decode().split() for line in lines]

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def cpu_s(self) -> float:
        """CPU time used so far, in steps of a clock tick."""
        _, _, after = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")
        user, system = after.split()[11:13]
        return (int(user) + int(system)) / TICKS_A_SECOND

    def status(self, field: str) -> int:
        """One number of /proc/PID/status, as the kernel says it (memory in KiB)."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))

    def wake_ups(self) -> int:
        """How often its threads went to sleep by themselves."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/status")
        lines = (line for task in tasks for line in task.read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(LIMIT_S)
        os.close(self.out)
        self._process.stdout = None


def main(root: str, vfs: str, slots: str) -> None:
    disk = SlowDisk() if vfs != "-" else None
    with join(Path(root), None if disk is None else vfs, APP, work=True) as engine:
        worker = engine.worker(slots=int(slots))
        engine.on_end(lambda job: _say("ended", job.id) if job.kind != KIND.name else None)
        _say("ready", os.getpid())
        worker.run(stay=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
