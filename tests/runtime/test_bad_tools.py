"""Tools that are bad company: the job of each ends as it must, its slot serves the next one, the doctor is content."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perenne import App, Context, Kind, tools, upkeep
from perenne.core.retry import Backoff

LIMITS = tools.Limits(
    wall_s=30.0,
    grace_s=0.1,
    hard_end_s=0.5,
    cpu_s=20,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=10_000,
    stderr_bytes=10_000,
)
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
# Each prints the numbers of the processes that must not outlive its run.
TOOLS = {
    "ignores SIGTERM": (DEAF + "print(os.getpid(), flush=True)\nwhile True: signal.pause()", "timeout"),
    "leaves its session": (
        DEAF + "print(os.getpid(), flush=True)\nif os.fork() == 0:\n    os.setsid(); print(os.getpid(), flush=True)\n"
        "    while True: signal.pause()\nelse: time.sleep(0.2)  # reason: until the child has spoken",
        "exited",
    ),
    "floods its output": ("while True: os.write(1, b'1 ' * 5000)", "output_limit"),
    "floods its errors": ("while True: os.write(2, b'1 ' * 5000)", "output_limit"),
    "never closes its output": ("os.fork() or [signal.pause() for _ in iter(int, 1)]", "exited"),
    "crashes": ("os.kill(os.getpid(), 11)", "signaled"),
    "takes all memory": ("held = [bytearray(1 << 24) for _ in range(1000)]", "nonzero"),
    "opens all descriptors": ("while True: os.dup(0)", "nonzero"),
}


def program(folder: Path, name: str) -> tuple[list[str], str | None, str]:
    """Arguments, identity and ending of a bad tool."""
    if name in TOOLS:
        code, ending = TOOLS[name]
        return [sys.executable, "-I", "-S", "-c", f"import os, signal, sys, time\n{code}"], None, ending
    path = folder / "tool"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o644 if name == "is not executable" else 0o755)
    identity = tools.identify(path)
    if name == "is missing":
        path.unlink()
        return [str(path)], None, "not_found"
    if name == "changed since its probe":
        path.write_text("#!/bin/sh\n:\n")
    return [str(path)], identity, "preparation_error"


def gone(pid: int) -> bool:
    """Whether the process is no more, soon: its host reaps it a moment after its end."""
    limit_s = time.monotonic() + 10
    while time.monotonic() < limit_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.005)  # reason: it is no child of ours, so its end cannot be waited for
    return False


@pytest.mark.parametrize("name", [*TOOLS, "is missing", "is not executable", "changed since its probe"])
@pytest.mark.parametrize("confined", [False, True], ids=["free", "confined"])
def test_a_bad_tool_costs_its_own_job_only(trial: Any, tmp_path: Path, name: str, confined: bool) -> None:
    """The run ends within its limits, nothing of it is left, the next job completes, and doctor finds nothing."""
    argv, identity, ending = program(tmp_path, name)
    parts = (Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent)
    limits = replace(LIMITS, wall_s=1.0) if ending == "timeout" else LIMITS
    results: list[tools.ToolResult] = []

    def use(context: Context, bad: bool) -> str:
        asked = tools.Confinement(stage=context.stage, reads=parts, children=4) if confined else None
        chosen = argv if bad else ["/bin/true"]
        result = tools.run(
            chosen, cwd=context.stage, limits=limits, stop=context.stop, confinement=asked,
            identity=identity if bad else None,
        )  # fmt: skip
        results.append(result)
        result.whole_stdout()
        return result.ending

    kind = Kind("bad.tool", 1, use, bool, max_attempts=1, backoff=Backoff())
    with trial.open(kind, real_time=True) as engine:
        bad, good = engine.submit(kind, True).job_id, engine.submit(kind, False).job_id
        engine.work()
        assert engine.job(good).state == "COMPLETED"
        assert engine.job(bad).state in ("COMPLETED", "FAILED")
    assert results[0].ending == ending, results[0].sentence
    assert all(gone(int(pid)) for pid in results[0].stdout.split() if int(pid) > 1)
    troubles = [found for found in upkeep.doctor(trial.root, App("trial", [kind])) if found.verdict == "bad"]
    assert troubles == []
