"""The limits of a tool: they hold from its first instruction on, and output is never kept beyond them."""

from __future__ import annotations

import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perenne.errors import InvalidInput, ToolFailed
from perenne.runtime.toolrunner import Limits, ToolResult, run

LIMITS = Limits(
    wall_s=30,
    cpu_s=20,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=100_000,
    stderr_bytes=100_000,
)


def python(code: str, limits: Limits = LIMITS, cwd: Path = Path("/")) -> ToolResult:
    return run([sys.executable, "-I", "-S", "-c", code], cwd=cwd, limits=limits)


def test_limits_are_there_from_the_start() -> None:
    """The tool finds its limits set, soft and hard, and cannot write a core file."""
    names = ["RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_CORE"]
    result = python(f"import resource as r; print([r.getrlimit(getattr(r, name)) for name in {names}])")
    expected = [(1 << 30, 1 << 30), (1 << 20, 1 << 20), (64, 64), (20, 21), (0, 0)]
    assert result.whole_stdout().decode().strip() == str(expected)


def test_limits_of_this_process_stay() -> None:
    """Running a tool changes no limit of the process that runs it."""
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)
    before = [resource.getrlimit(kind) for kind in kinds]
    python("pass")
    assert [resource.getrlimit(kind) for kind in kinds] == before


def test_limit_above_what_this_process_may_is_lowered_to_it() -> None:
    """A limit that the system does not allow us ourselves becomes the largest one allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    result = python(
        "import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE)[1])", replace(LIMITS, descriptors=most + 1)
    )
    assert int(result.whole_stdout()) == most


def test_endless_computation_ends_at_the_cpu_limit() -> None:
    """A tool that only computes is ended at its CPU limit, and the sentence names that limit."""
    result = python("while True: pass", replace(LIMITS, cpu_s=1))
    assert result.ending == "signaled"
    assert "cpu_s=1" in result.sentence


def test_computation_that_ignores_the_warning_is_killed() -> None:
    """A tool that ignores SIGXCPU is killed one second later."""
    code = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    result = python(code, replace(LIMITS, cpu_s=1))
    assert (result.ending, result.signal) == ("signaled", 9)


def test_file_beyond_the_limit_is_not_written(tmp_path: Path) -> None:
    """A tool that writes a larger file than it may is ended, and the file stays within the limit."""
    dd = shutil.which("dd", path="/usr/bin:/bin")
    assert dd is not None
    result = run([dd, "if=/dev/zero", "of=large", "bs=65536", "count=100"], cwd=tmp_path, limits=LIMITS)
    assert result.ending == "signaled"
    assert "file_size_bytes" in result.sentence
    assert (tmp_path / "large").stat().st_size == LIMITS.file_size_bytes


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not limit address space")
def test_memory_beyond_the_limit_is_refused() -> None:
    """A tool gets no more memory than its limit."""
    code = "import os\ntry: bytearray(512 << 20)\nexcept MemoryError: os._exit(7)"
    assert python(code).exit_code == 0
    assert python(code, replace(LIMITS, address_space_bytes=256 << 20)).exit_code == 7


def test_descriptors_beyond_the_limit_are_refused() -> None:
    """A tool opens no more descriptors than its limit."""
    code = """
import os
opened = 3
try:
    while True:
        os.dup(0)
        opened += 1
except OSError:
    print(opened)
"""
    assert python(code).whole_stdout() == b"64\n"


def test_output_up_to_the_limit_is_whole() -> None:
    """Output that exactly fills the limit is complete."""
    result = python("import os; os.write(1, b'x' * 50_000); os.write(1, b'x' * 50_000)")
    assert (result.ending, len(result.whole_stdout())) == ("exited", 100_000)


@pytest.mark.parametrize("stream", [1, 2])
def test_one_byte_more_is_too_much(stream: int) -> None:
    """One byte beyond a limit is `output_limit`, also when the tool ended well; the sentence names the limit."""
    result = python(f"import os; os.write({stream}, b'x' * 50_000); os.write({stream}, b'x' * 50_001)")
    assert result.ending == "output_limit"
    assert ("stdout_bytes" if stream == 1 else "stderr_bytes") in result.sentence


FLOOD = """
import os, signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def flood(descriptor):
    while True:
        os.write(descriptor, b'x' * 65536)
threading.Thread(target=flood, args=[2]).start()
flood(1)
"""


def test_both_streams_flooding_are_bounded() -> None:
    """A flood on both outputs, and no ear for SIGTERM: what is kept stays at the limits, the rest is only counted."""
    result = python(FLOOD)
    assert (result.ending, result.signal) == ("output_limit", 9)
    for stream in (result.stdout_stream, result.stderr_stream):
        assert (stream.data, stream.complete) == (b"x" * 100_000, False)
    assert max(result.stdout_stream.observed_bytes, result.stderr_stream.observed_bytes) > 1_000_000


def test_incomplete_output_is_never_given_for_parsing() -> None:
    """Asking a cut output for parsing raises, and the sentence says how much is missing and why."""
    result = python("import os; os.write(1, b'{}' * 60_000)")
    assert not result.stdout_complete
    with pytest.raises(ToolFailed, match=r"incomplete \(100000 of 120000 bytes read are kept\).*stdout_bytes=100000"):
        result.whole_stdout()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("wall_s", 0),
        ("wall_s", float("nan")),
        ("wall_s", float("inf")),
        ("grace_s", -0.1),
        ("hard_end_s", 0),
        ("cpu_s", 0.5),
        ("cpu_s", True),
        ("address_space_bytes", 0),
        ("file_size_bytes", -1),
        ("descriptors", "64"),
        ("stdout_bytes", 2**63),
        ("stderr_bytes", None),
    ],
)
def test_limit_that_is_no_limit_is_refused(field: str, value: Any) -> None:
    """Each limit is a positive number; the sentence names the one that is not."""
    with pytest.raises(InvalidInput, match=f"{field} is "):
        replace(LIMITS, **{field: value})
