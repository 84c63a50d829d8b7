"""What goes into a run of an outside program and what comes out of it: limits, streams, result.

Plain values, checked when made. Starting, waiting and killing live in `toolrunner.py` and its neighbours.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import signal as signals
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

from perenne.errors import InvalidInput, ToolFailed
from perenne.runtime.confine import LIMITS_ONLY, Confined

Ending = Literal[
    "exited",
    "nonzero",
    "signaled",
    "timeout",
    "cancelled",
    "output_limit",
    "not_found",
    "preparation_error",
    "io_error",
]

LIMIT_BY_SIGNAL = {signals.SIGXCPU: "cpu_s", signals.SIGXFSZ: "file_size_bytes"}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run; all positive. Times are seconds, on the monotonic clock except `cpu_s`.

    Memory, CPU time, file size and descriptors bound each process of the tool, not their sum. The tool's SIGXCPU at
    `cpu_s` is followed by SIGKILL one second later.
    """

    wall_s: float
    cpu_s: int
    address_space_bytes: int
    file_size_bytes: int
    descriptors: int
    stdout_bytes: int
    stderr_bytes: int
    grace_s: float = 0.25  # from SIGTERM to SIGKILL
    hard_end_s: float = 1.0  # from SIGKILL, or from the tool's own end, until open pipes are given up

    def __post_init__(self) -> None:
        for field in fields(self):
            whole = field.type == "int"
            value = getattr(self, field.name)
            if not _is_positive(value, whole=whole):
                raise InvalidInput(
                    f"{field.name} is {value!r}; give a positive {'whole number' if whole else 'number'}",
                    field=field.name,
                    value=value,
                )


def _is_positive(value: object, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    return 0 < value < 2**63 and math.isfinite(value)


@dataclass(frozen=True)
class Stream:
    """What was read of one output stream."""

    data: bytes = b""  # at most the limit; the beginning of what was written
    observed_bytes: int = 0  # all that arrived, kept or not
    complete: bool = False  # read up to its end, and everything kept

    @cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of `data`."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """How a run ended. A missing program, a deadline or a request to stop is a result, never an exception.

    `exit_code` or `signal` say how the program itself ended, where that is known; `errno` says why it could not be
    started or watched; `reason` is the one given with the request to stop. A request of a session that was answered is
    `exited` with neither code nor signal, for the program lives on.
    """

    tool: str
    limits: Limits
    ending: Ending
    elapsed_s: float
    exit_code: int | None = None
    signal: int | None = None
    errno: int | None = None
    reason: str | None = None
    request: int | None = None  # of a session: which one since its program was started, from 1
    confinement: Confined = LIMITS_ONLY  # what was in force
    stdout_stream: Stream = Stream()
    stderr_stream: Stream = Stream()

    @property
    def stdout(self) -> bytes:
        """What is kept of standard output; parse it only through `whole_stdout`."""
        return self.stdout_stream.data

    @property
    def stderr(self) -> bytes:
        """What is kept of standard error."""
        return self.stderr_stream.data

    @property
    def stdout_complete(self) -> bool:
        """Whether the program came to an exit of its own and all of its standard output is here."""
        return self.ending in ("exited", "nonzero") and self.stdout_stream.complete

    def whole_stdout(self) -> bytes:
        """Standard output, fit to be parsed; its exit code is for the caller to judge.

        Raises:
            ToolFailed: the output is, or may be, only a part.
        """
        if not self.stdout_complete:
            kept, observed = len(self.stdout), self.stdout_stream.observed_bytes
            raise ToolFailed(
                f"the output of {self.tool} is incomplete ({kept} of {observed} bytes read are kept) "
                f"and must not be parsed: {self.sentence}",
                tool=self.tool,
                ending=self.ending,
            )
        return self.stdout

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        return f"{self.tool} {self._what_happened()}"

    def _what_happened(self) -> str:
        after = f"after {self.elapsed_s:.2f} s"
        match self.ending:
            case "exited" if self.request is not None and self.exit_code is None:
                return f"answered request {self.request} {after}"
            case "exited":
                return f"ended well {after}"
            case "nonzero":
                return f"ended with exit code {self.exit_code} {after}"
            case "signaled":
                return f"was ended by {self._signal_name()} {after}"
            case "timeout":
                return f"was stopped because it took longer than wall_s={self.limits.wall_s} s"
            case "cancelled":
                return f"was stopped on request {after}: {self.reason}"
            case "output_limit":
                return f"was stopped {after} because it wrote more than {self._overflown()}"
            case "not_found":
                return "does not exist; install the program or name another"
            case "preparation_error" if self.errno == errno.ESTALE:
                return "has changed since it was probed and was not started; probe it again"
            case "preparation_error":
                return f"could not be started: {os.strerror(self.errno or 0)} (errno {self.errno})"
            case "io_error":
                return f"was lost from sight {after}: {os.strerror(self.errno or 0)} (errno {self.errno}); try again"

    def _signal_name(self) -> str:
        try:
            number = signals.Signals(self.signal or 0)
        except ValueError:
            return f"signal {self.signal}"
        limit = LIMIT_BY_SIGNAL.get(number)
        return f"{number.name} (it passed {limit}={getattr(self.limits, limit)})" if limit else number.name

    def _overflown(self) -> str:
        out = self.stdout_stream.observed_bytes > self.limits.stdout_bytes
        name = "stdout_bytes" if out else "stderr_bytes"
        return f"{name}={getattr(self.limits, name)}"
