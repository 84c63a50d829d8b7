"""One request to a running tool and its answer: written, read up to the agreed ends, within deadline and output limits.

What lives here: the loop of one exchange and how it ends. What does not: the life of the session (`toolsession.py`).
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable
from dataclasses import replace

from perenne.crashpoints import crash_point
from perenne.runtime import toolorder
from perenne.runtime.toolspawner import Tool
from perenne.runtime.toolvalues import Ending, Limits, Stream
from perenne.runtime.toolwatch import Intake

LONGEST_WAIT_S = 3600.0  # poll counts milliseconds in 32 bits


class Line:
    """The descriptors of a running tool, watched for as long as it lives."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.poll = select.poll()
        for descriptor in (tool.channel.fileno(), tool.stdout, tool.stderr):
            self.poll.register(descriptor, select.POLLIN)
        self.requests = 0
        self.spawned = False

    @property
    def stirs(self) -> bool:
        """Whether the tool ended or spoke without being asked."""
        return self.spawned and bool(self.poll.poll(0))


class Exchange:
    """One request; `run` may be called once."""

    def __init__(self, line: Line, limits: Limits, ends: tuple[bytes, bytes], stop: int | None) -> None:
        self.answered = False
        self.errno: int | None = None
        self.exit_code: int | None = None
        self._line, self._tool = line, line.tool
        self._ends = ends
        self._stdout = Intake(limits.stdout_bytes + len(ends[0]))
        self._stderr = Intake(limits.stderr_bytes + len(ends[1]))
        self._ending: Ending | None = None
        self._stop = stop
        self._left = memoryview(b"")
        self._actions: dict[int, Callable[[], None]] = {
            self._tool.channel.fileno(): self._hear_host,
            self._tool.stdout: lambda: self._read(self._tool.stdout, self._stdout),
            self._tool.stderr: lambda: self._read(self._tool.stderr, self._stderr),
            self._tool.stdin: self._write,
        }
        if stop is not None:
            self._actions[stop] = lambda: self._cut("cancelled")

    def run(self, request: bytes, deadline_s: float) -> Ending:
        """Send the request and wait for the whole answer: `exited` with `answered`, or why it is not here."""
        self._left = memoryview(request)
        poll = self._line.poll
        if self._stop is not None:
            poll.register(self._stop, select.POLLIN)
        try:
            self._write()
            while self._ending is None:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    self._cut("timeout")
                for descriptor, _ in poll.poll(min(max(left_s, 0.0), LONGEST_WAIT_S) * 1000):
                    self._actions[descriptor]()
        finally:
            if self._stop is not None:
                poll.unregister(self._stop)
        return self._ending

    @property
    def stdout(self) -> Stream:
        return self._kept(self._stdout, self._ends[0])

    @property
    def stderr(self) -> Stream:
        return self._kept(self._stderr, self._ends[1])

    def _kept(self, intake: Intake, end: bytes) -> Stream:
        return intake.answer(end) if self.answered else replace(intake.stream(), complete=False)

    def _cut(self, ending: Ending) -> None:
        self._ending = self._ending or ending

    def _write(self) -> None:
        try:
            written = os.write(self._tool.stdin, self._left) if self._left else 0
        except BlockingIOError:
            written = 0
        except OSError as fault:
            self._end_of_input()  # the tool has closed its ear; what it says, or its end, tells why
            self.errno = fault.errno
            return
        self._left = self._left[written:]
        if self._left:
            self._line.poll.register(self._tool.stdin, select.POLLOUT)
        else:
            self._end_of_input()

    def _end_of_input(self) -> None:
        self._left = memoryview(b"")
        try:
            self._line.poll.unregister(self._tool.stdin)
        except KeyError:
            return  # it took everything at once

    def _read(self, descriptor: int, intake: Intake) -> None:
        try:
            intake.take(descriptor)
        except OSError as fault:
            self.errno = fault.errno
            self._cut("io_error")
        if intake.at_end:
            self._line.poll.unregister(descriptor)  # the end of the tool follows, or the deadline
        elif intake.overflows:
            self._cut("output_limit")
        elif not self._left and self._stdout.ends_with(self._ends[0]) and self._stderr.ends_with(self._ends[1]):
            self.answered = self._ending is None
            self._cut("exited")

    def _hear_host(self) -> None:
        try:
            for kind, value in self._tool.notes():
                self._obey(kind, value)
        except OSError as fault:
            self.errno = fault.errno
            self._cut("io_error")

    def _obey(self, kind: bytes, value: int) -> None:
        match kind:
            case toolorder.SPAWNED:
                self._line.spawned = True
                crash_point("run.tool_spawned")
            case toolorder.FAILED:
                self.errno = value
                self._cut("preparation_error")
            case toolorder.ENDED:
                crash_point("run.tool_ended")
                self.exit_code = os.waitstatus_to_exitcode(value)
                self._cut("signaled" if self.exit_code < 0 else "nonzero" if self.exit_code else "exited")
                self._hear_last_words()

    def _hear_last_words(self) -> None:
        for descriptor, intake in ((self._tool.stdout, self._stdout), (self._tool.stderr, self._stderr)):
            with contextlib.suppress(OSError):  # all is read, while a child of the tool keeps the pipe open
                while not intake.at_end and not intake.overflows:
                    intake.take(descriptor)
