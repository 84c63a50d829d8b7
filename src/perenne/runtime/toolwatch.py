"""The wait for one tool: its outputs, its end, the deadline and the request to stop, in one loop without polling.

What lives here: who wins when several things happen, and the steps from SIGTERM to the hard end. What does not: how a
tool is started (`toolspawner.py`) and what may be started at all (`toolrunner.py`).
"""

from __future__ import annotations

import enum
import os
import selectors
import signal
import time
from collections.abc import Callable
from functools import partial

from perenne.crashpoints import crash_point
from perenne.runtime import toolorder
from perenne.runtime.toolspawner import Tool
from perenne.runtime.toolvalues import Ending, Limits, Stream

PIECE_BYTES = 65536
LONGEST_WAIT_S = 3600.0  # poll counts milliseconds in 32 bits; a longer deadline is waited for in turns


class Step(enum.Enum):
    """How far the run has come; each step has a deadline of its own."""

    RUNNING = enum.auto()  # until wall_s
    ASKED = enum.auto()  # SIGTERM was sent; until grace_s
    KILLED = enum.auto()  # SIGKILL was sent; until hard_end_s
    ENDED = enum.auto()  # the tool is reaped and its group killed; the pipes may hold the last words, until hard_end_s
    GIVEN_UP = enum.auto()


class Intake:
    """Reads one stream: keeps its beginning, counts the rest."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept = bytearray()
        self._observed_bytes = 0
        self.at_end = False

    def take(self, descriptor: int) -> None:
        """Read what is there, at most one piece."""
        piece = os.read(descriptor, PIECE_BYTES)
        self.at_end = not piece
        self._observed_bytes += len(piece)
        self._kept += piece[: self._limit_bytes - len(self._kept)]

    @property
    def overflows(self) -> bool:
        return self._observed_bytes > self._limit_bytes

    def ends_with(self, end: bytes) -> bool:
        return self._kept.endswith(end)

    def answer(self, end: bytes) -> Stream:
        """What was read up to the end that was agreed on, and without it."""
        whole = bytes(self._kept[: len(self._kept) - len(end)])
        return Stream(whole, len(whole), True)

    def stream(self) -> Stream:
        return Stream(bytes(self._kept), self._observed_bytes, self.at_end and not self.overflows)


class Watch:
    """One tool from its start to its end. The thread that waits is the one that called; no other is needed.

    `stop` is a descriptor that becomes readable when the tool must stop.
    """

    def __init__(self, tool: Tool, limits: Limits, stop: int | None, began_s: float) -> None:
        self.stdout = Intake(limits.stdout_bytes)
        self.stderr = Intake(limits.stderr_bytes)
        self.status: int | None = None  # the wait status of the tool, once reaped
        self.errno: int | None = None
        self._cut: Ending | None = None
        self._tool = tool
        self._limits = limits
        self._stop = stop
        self._step = Step.RUNNING
        self._deadline_s = began_s + limits.wall_s
        self._selector = selectors.PollSelector()  # needs no descriptor of its own, so nothing can fail from here on

    def wait(self) -> Ending:
        """Wait until the tool is reaped and its outputs are read, or until the hard end."""
        with self._selector:
            self._listen(self._tool.channel.fileno(), self._hear_host)
            self._listen(self._tool.stdout, partial(self._read, self._tool.stdout, self.stdout))
            self._listen(self._tool.stderr, partial(self._read, self._tool.stderr, self.stderr))
            if self._stop is not None:
                self._listen(self._stop, partial(self._hear_stop, self._stop))
            while not self._over():
                left_s = self._deadline_s - time.monotonic()
                # What happened comes before the deadline: a tool that ended in time has ended in time.
                for key, _ in self._selector.select(min(max(0.0, left_s), LONGEST_WAIT_S)):
                    key.data()
                if not self._over() and time.monotonic() >= self._deadline_s:
                    self._pass_deadline()
        return self._cut or self._own_ending()

    @property
    def exit_code(self) -> int | None:
        """The tool's exit code; negative for the signal that ended it; None when it is not known."""
        return None if self.status is None else os.waitstatus_to_exitcode(self.status)

    def _own_ending(self) -> Ending:
        if self.exit_code is None:
            return "io_error"
        return "exited" if self.exit_code == 0 else "nonzero" if self.exit_code > 0 else "signaled"

    def _over(self) -> bool:
        read = self.stdout.at_end and self.stderr.at_end
        return self._step is Step.GIVEN_UP or (self._step is Step.ENDED and read)

    def _listen(self, descriptor: int, action: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, action)

    def _read(self, descriptor: int, intake: Intake) -> None:
        try:
            intake.take(descriptor)
        except OSError as fault:
            self.errno = fault.errno
            self._selector.unregister(descriptor)
            self._cut_off("io_error")
        if intake.at_end:
            self._selector.unregister(descriptor)
        if intake.overflows:
            self._cut_off("output_limit")

    def _hear_stop(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        if self._step is not Step.ENDED:
            self._cut_off("cancelled")

    def _hear_host(self) -> None:
        try:
            for kind, value in self._tool.notes():
                self._obey(kind, value)
        except OSError as fault:
            self.errno = self.errno or fault.errno
            self._cut = self._cut or "io_error"
            self._end()

    def _obey(self, kind: bytes, value: int) -> None:
        match kind:
            case toolorder.SPAWNED:
                crash_point("run.tool_spawned")
            case toolorder.FAILED:
                self.errno = value
                self._cut = self._cut or "preparation_error"
            case toolorder.ENDED:
                crash_point("run.tool_ended")
                self.status = value
                self._end()

    def _cut_off(self, cause: Ending) -> None:
        """Note why the run does not end by itself, the first cause only, and ask the tool to end."""
        self._cut = self._cut or cause
        if self._step is Step.RUNNING:
            self._signal(signal.SIGTERM)
            self._enter(Step.ASKED, self._limits.grace_s)

    def _pass_deadline(self) -> None:
        match self._step:
            case Step.RUNNING:
                self._cut_off("timeout")
            case Step.ASKED:
                self._signal(signal.SIGKILL)
                self._enter(Step.KILLED, self._limits.hard_end_s)
            case _:
                self._step = Step.GIVEN_UP

    def _signal(self, number: int) -> None:
        self._tool.send_signal(number)
        crash_point("run.tool_signaled")

    def _end(self) -> None:
        self._selector.unregister(self._tool.channel)
        left_s = self._deadline_s - time.monotonic() if self._step is Step.KILLED else self._limits.hard_end_s
        self._enter(Step.ENDED, left_s)

    def _enter(self, step: Step, at_most_s: float) -> None:
        self._step = step
        self._deadline_s = time.monotonic() + at_most_s
