"""Stop: a request to end some work, asked once and for good, on which a wait can lean without polling.

What lives here: the request and its descriptor. What does not: anyone who asks, and what stopping means to them.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

from perenne.errors import InvalidInput


class Stop:
    """A one-way request to stop, with its reason; any thread and any signal handler may ask.

    Guarantees: the first reason stands; a descriptor from `fileno` is readable from the request on, for every waiter.
    """

    def __init__(self) -> None:
        # Reentrant, because a signal handler may ask while its own thread is inside one of these methods.
        self._lock = threading.RLock()
        self._reason: str | None = None
        self._pipe: tuple[int, int] | None = None
        self._closed = False

    @property
    def asked(self) -> str | None:
        """The reason of the first request, or None as long as nobody asked."""
        return self._reason

    def ask(self, reason: str) -> None:
        """Ask to stop; a later request changes nothing.

        Raises:
            InvalidInput: the reason is empty.
        """
        if not reason:
            raise InvalidInput("reason is empty; say in a few words why the work must stop", field="reason")
        with self._lock:
            if self._reason is None:
                self._reason = reason
                self._signal()

    def fileno(self) -> int:
        """A descriptor to wait on: readable once asked, never to be read, closed on exec.

        Raises:
            InvalidInput: the request was closed.
        """
        with self._lock:
            if self._closed:
                raise InvalidInput("the stop request is closed; wait on it only while the work runs", field="stop")
            if self._pipe is None:
                self._pipe = os.pipe()
                if self._reason is not None:
                    self._signal()
            return self._pipe[0]

    def close(self) -> None:
        """Give the descriptor back; `asked` and `ask` keep working, waiting does not."""
        with self._lock:
            self._closed = True
            pipe, self._pipe = self._pipe, None
            for descriptor in pipe or ():
                os.close(descriptor)

    def _signal(self) -> None:
        if self._pipe is not None:
            os.write(self._pipe[1], b"!")

    def __enter__(self) -> Stop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
