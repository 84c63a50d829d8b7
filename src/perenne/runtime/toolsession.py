"""A tool held as a session: started once, asked many times, started anew after anything that is not an answer.

What lives here: the life of a session, and the sessions that a slot holds. One request is `toolexchange.py`'s matter.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from perenne.errors import InvalidInput, NotAllowed
from perenne.runtime import confine
from perenne.runtime.confine import Confinement
from perenne.runtime.stop import Stop
from perenne.runtime.toolexchange import Exchange, Line
from perenne.runtime.toolrunner import checked_folder, checked_words, obstacle_to, order_of
from perenne.runtime.toolspawner import spawn
from perenne.runtime.toolvalues import Ending, Limits, ToolResult

REQUESTS = 500
HELD_MOST = 4  # by one slot; the one that was used longest ago gives way


class Session:
    """A program that answers requests on its standard input; for one thread at a time.

    Args:
        argv, cwd, confinement, identity: as for `run`; the program is started by the first request.
        limits: `wall_s` and the output limits bound each request; `cpu_s` so many requests together, the others the
            program. SIGTERM is not sent: a session has nothing to tidy up.
        requests: after so many the program is started anew.
    Guarantees: it ends when closed, when its thread's slot ends, and with this process.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        limits: Limits,
        confinement: Confinement | None = None,
        identity: str | None = None,
        requests: int = REQUESTS,
    ) -> None:
        """Raises: InvalidInput: an argument is no such thing."""
        if isinstance(requests, bool) or not 1 <= requests <= 1_000_000:
            raise InvalidInput(f"requests is {requests!r}; give 1 to 1000000", field="requests", value=requests)
        self._argv, self._words, self._folder = tuple(argv), checked_words(argv), checked_folder(cwd)
        self.limits, self.confinement, self.identity, self.requests = limits, confinement, identity, requests
        self.starts = 0  # how often the program was started
        self._line: Line | None = None
        self._asked = threading.Lock()

    def ask(
        self, request: bytes, *, stdout_end: bytes, stderr_end: bytes = b"", stop: Stop | None = None
    ) -> ToolResult:
        """Send one request and give its answer; `exited` and complete when the whole of it is here.

        Args:
            request: bytes for the program's standard input, as the program wants them.
            stdout_end, stderr_end: what the last bytes of the answer will be; the outputs come back without them. An
                empty `stderr_end` asks for no mark there. Let them hold what no input can foresee.
        Raises:
            InvalidInput: a request or an end that is none. NotAllowed: another request is in flight.
            ConfinementMissing: the confinement is required and not offered here.
        Guarantees: after any other end than an answer, the program is gone, and the next request starts it anew.
        """
        if not isinstance(request, bytes) or not request or not isinstance(stdout_end, bytes) or not stdout_end:
            raise InvalidInput("request and stdout_end: give bytes, at least one each", field="stdout_end")
        if not self._asked.acquire(blocking=False):
            raise NotAllowed(f"the session of {self._argv[0]} has a request in flight; wait for its answer")
        try:
            return self._ask(request, (stdout_end, stderr_end), stop)
        finally:
            self._asked.release()

    def _ask(self, request: bytes, ends: tuple[bytes, bytes], stop: Stop | None) -> ToolResult:
        began_s = time.monotonic()
        if stop is not None and stop.asked is not None:
            return self._result("cancelled", began_s, reason=stop.asked)
        try:
            line = self._line_for_one_more()
            exchange = Exchange(line, self.limits, ends, None if stop is None else stop.fileno())
        except OSError as fault:
            ending: Ending = "not_found" if fault.errno in (errno.ENOENT, errno.ENOTDIR) else "preparation_error"
            return self._result(ending, began_s, errno=fault.errno or errno.EIO)
        line.requests += 1
        try:
            ending = exchange.run(request, began_s + self.limits.wall_s)
        finally:
            if not exchange.answered:
                self.close()
        code = exchange.exit_code
        return self._result(
            ending,
            began_s,
            request=line.requests,
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            errno=None if ending in ("exited", "nonzero", "signaled") else exchange.errno,
            reason=stop.asked if stop is not None and ending == "cancelled" else None,
            stdout_stream=exchange.stdout,
            stderr_stream=exchange.stderr,
        )

    def _result(self, ending: Ending, began_s: float, **facts: object) -> ToolResult:
        return ToolResult(
            tool=self._argv[0],
            limits=self.limits,
            ending=ending,
            elapsed_s=time.monotonic() - began_s,
            confinement=confine.in_force(self.confinement),
            **facts,  # type: ignore[arg-type]
        )

    def _line_for_one_more(self) -> Line:
        """The running program; started where there is none, or where it is spent or stirred. Raises: OSError."""
        if self._line is not None and (self._line.requests >= self.requests or self._line.stirs):
            self.close()
        if self._line is None:
            confined = confine.in_force(self.confinement)
            if number := obstacle_to(self._argv[0]):
                raise OSError(number, "")
            cage = confine.cage_of(self.confinement, confined, self._argv[0])
            limits = replace(self.limits, cpu_s=min(self.limits.cpu_s * self.requests, 1 << 30))
            self._line = Line(spawn(order_of(self._words, self._folder, limits, cage, self.identity), talks=True))
            self.starts += 1
        return self._line

    def close(self) -> None:
        """End the program and all that it started; the next request starts it anew."""
        line, self._line = self._line, None
        if line is not None:
            line.tool.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Held(threading.local):
    def __init__(self) -> None:
        self.sessions: dict[object, Session] = {}


_held = _Held()


def session(
    argv: Sequence[str],
    *,
    cwd: Path,
    limits: Limits,
    confinement: Confinement | None = None,
    identity: str | None = None,
    requests: int = REQUESTS,
) -> Session:
    """The session that this thread holds for equal arguments, made where there is none; ends with the thread's slot.

    Raises: InvalidInput: as for `Session`.
    """
    key = (tuple(argv), cwd, limits, confinement, identity, requests)
    found = _held.sessions.pop(key, None) or Session(
        argv, cwd=cwd, limits=limits, confinement=confinement, identity=identity, requests=requests
    )
    _held.sessions[key] = found  # the last one is the one used last
    if len(_held.sessions) > HELD_MOST:
        _held.sessions.pop(next(iter(_held.sessions))).close()
    return found


def close_sessions() -> None:
    """End every session that this thread holds; called where a slot ends."""
    while _held.sessions:
        _held.sessions.popitem()[1].close()
