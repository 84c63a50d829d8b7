"""How wishes reach an attempt in a child while its handler works: a pipe, and a thread that reads nothing else.

What lives here: both ends of the pipe. What does not: what a wish means (`wishes`), and the verbs (`proxy`).
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from perenne.runtime.proxy import leave
from perenne.runtime.wishes import ORDER, Wishes

# Which attempt of this child, the wishes as bits in E-S2's order, and whether tools are to be stopped.
_STATE = struct.Struct("=IHB")
_PIPE_BYTES = 1 << 16  # what a pipe holds; read at once, so that of many states the newest one is met


def told(serial: int, wishes: Wishes) -> bytes:
    """All that is asked of an attempt now, as it travels: at once or not at all, for it is smaller than a page."""
    bits = sum(1 << place for place, why in enumerate(ORDER) if wishes.asked(why))
    return _STATE.pack(serial, bits, wishes.stop.asked is not None)


class Hearing:
    """The child's end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._newest = (0, 0, 0)
        self._current: tuple[int, Wishes] | None = None
        self._changing = threading.Lock()
        threading.Thread(target=self._listen, daemon=True, name="hearing").start()

    @contextmanager
    def of(self, serial: int) -> Iterator[Wishes]:
        """The wishes of an attempt, kept up to date meanwhile; what was told before it began is heard, too."""
        wishes = Wishes()
        with self._changing:
            self._current = (serial, wishes)
            self._pass_on()
        try:
            yield wishes
        finally:
            with self._changing:
                self._current = None
            wishes.stop.close()

    def _listen(self) -> None:
        while True:
            try:
                received = os.read(self._descriptor, _PIPE_BYTES // _STATE.size * _STATE.size)
            except OSError:
                received = b""
            with self._changing:
                if not received and self._current is None:
                    return  # the worker lets go; the thread that serves hears of it as well
                if not received:
                    leave()
                self._newest = _STATE.unpack(received[-_STATE.size :])
                self._pass_on()

    def _pass_on(self) -> None:
        serial, bits, stop = self._newest
        if self._current is None or self._current[0] != serial:
            return
        wishes = self._current[1]
        for place, why in enumerate(ORDER):
            wishes.ask(why) if bits & 1 << place else wishes.take_back(why)
        if stop:
            wishes.stop.ask(wishes.first or "stop")
