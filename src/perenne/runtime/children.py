"""The children of one worker: kept warm, lent to an attempt at a time, replaced before they are missed.

All are started by one thread that lives as long as the worker, because the signal of a parent's death belongs to the
thread that started a process. What does not live here: one child (`childprocess`), one attempt (`attendant`).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from perenne.core.kind import Kind
from perenne.errors import ChildFailed
from perenne.files.workspace import Workspace
from perenne.runtime.childprocess import ChildProcess

ATTEMPTS_MOST = 500
GROWTH_FACTOR, GROWTH_BYTES = 2, 128 << 20

Idle = deque["Future[ChildProcess]"]


class Children:
    """A pool with a line of idle children for each kind; any slot may borrow from it.

    Args: owner: the id of the worker. most: how many slots may borrow at once.
    """

    def __init__(self, workspace: Workspace, owner: str, most: int) -> None:
        self._workspace, self._owner, self._most = workspace, owner, most
        self._idle: dict[str, Idle] = {}
        self._changing = threading.Lock()
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._nursery: threading.Thread | None = None
        self._leaving: list[threading.Thread] = []
        self._lent = 0
        self._spares = False

    def warm(self, kinds: Iterable[Kind]) -> None:
        """Have a child ready for each kind that runs in one, from now on: also for the attempt after a crash."""
        with self._changing:
            self._spares = True
            for kind in kinds:
                if kind.isolation == "process" and not self._line(kind):
                    self._line(kind).append(self._start(kind))

    def lend(self, kind: Kind) -> ChildProcess:
        """A child that is ready for an attempt of this kind; if it was the last one, another is started already.

        Raises: ChildFailed: it could not be started, or cannot import its kind.
        """
        with self._changing:
            self._lent += 1
        try:
            while (child := self._next(kind)).is_over():
                child.end()  # it died while it had nothing to do
            return child
        except BaseException:
            self.lose()
            raise

    def _next(self, kind: Kind) -> ChildProcess:
        with self._changing:
            line = self._line(kind)
            coming = line.popleft() if line else self._start(kind)
            if not line and self._spares:
                line.append(self._start(kind))
            self._let_go_of_others(kind)
        try:
            child = coming.result()
        except Exception as error:  # no process, no descriptor, or a kind that has lost its name
            raise ChildFailed(f"a child of {kind} could not be started: {error}") from error
        try:
            child.await_ready()
        except ChildFailed as error:
            raise ChildFailed(f"{error}; {child.end().sentence}") from None
        return child

    def give_back(self, child: ChildProcess, resident_bytes: int | None) -> None:
        """The attempt is over; the child serves the next one, or is replaced when it has done or holds too much.

        Args: resident_bytes: what it holds now, if that is known.
        """
        child.served += 1
        if child.resident_bytes is None:
            child.resident_bytes = resident_bytes
        self.lose()
        if child.served >= ATTEMPTS_MOST or _has_grown(child.resident_bytes, resident_bytes):
            self._let_leave(child)
            return
        ready: Future[ChildProcess] = Future()
        ready.set_result(child)
        with self._changing:
            self._line(child.kind).appendleft(ready)

    def lose(self) -> None:
        """A child that was lent has been ended, or none could be lent."""
        with self._changing:
            self._lent -= 1

    def close(self) -> None:
        """Let every idle child leave, and wait for that; none is lent any more."""
        with self._changing:
            idle = [one for line in self._idle.values() for one in line]
            self._idle.clear()
        for one in idle:
            with contextlib.suppress(Exception):  # it could not be started, and nobody asked for it
                self._let_leave(one.result())
        for thread in self._leaving:
            thread.join()
        if self._nursery is not None:
            self._orders.put(None)
            self._nursery.join()

    def _line(self, kind: Kind) -> Idle:
        return self._idle.setdefault(str(kind), deque())

    def _let_go_of_others(self, kind: Kind) -> None:
        """No more children than slots, and one that is ready for each kind beside."""
        spare = sum(map(len, self._idle.values()))
        while self._lent + spare > self._most + len(self._idle):
            longest = max((line for name, line in self._idle.items() if name != str(kind)), key=len, default=None)
            if longest is None or len(longest) < 2:
                return
            spare -= 1
            with contextlib.suppress(Exception):
                self._let_leave(longest.popleft().result())

    def _let_leave(self, child: ChildProcess) -> None:
        """Without making anybody wait for it."""
        thread = threading.Thread(target=child.leave, daemon=True, name="leaving child")
        thread.start()
        self._leaving = [one for one in self._leaving if one.is_alive()] + [thread]

    def _start(self, kind: Kind) -> Future[ChildProcess]:
        if self._nursery is None:
            self._nursery = threading.Thread(target=self._bear, daemon=True, name="nursery")
            self._nursery.start()
        coming: Future[ChildProcess] = Future()

        def start() -> None:
            try:
                coming.set_result(ChildProcess(kind, self._workspace, self._owner))
            except BaseException as error:
                coming.set_exception(error)

        self._orders.put(start)
        return coming

    def _bear(self) -> None:
        while (order := self._orders.get()) is not None:
            order()


def _has_grown(first_bytes: int | None, now_bytes: int | None) -> bool:
    """Whether it holds much more than after its first attempt, when all that it needs was loaded."""
    if first_bytes is None or now_bytes is None:
        return False
    return now_bytes > GROWTH_FACTOR * first_bytes + GROWTH_BYTES
