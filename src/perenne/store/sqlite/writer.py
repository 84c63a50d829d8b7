"""One writer at a time a process: callers that meet while a commit is under way share the next one.

No thread of its own: the caller that finds nobody writing leads, commits for all that wait, and hands the lead on.
A lone caller pays for no switch between threads; many callers pay for one fsync together.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from perenne import sqlite
from perenne.errors import NotAllowed
from perenne.store.driver import Transaction
from perenne.store.sqlite.block import Block
from perenne.store.sqlite.ghost import Files
from perenne.store.sqlite.guard import Hold
from perenne.store.sqlite.pen import HalfWay, Pen

T = TypeVar("T")

GROUP_REQUESTS = 256
GROUP_S = 0.005
BUSY_S = 5.0
# What the statements of one request can be blamed for; any other error of SQLite concerns the file, thus the group.
_OF_A_REQUEST = (
    apsw.ConstraintError,
    apsw.SQLError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
)


class _Request:
    """One caller's work, and the lock a caller that must wait sleeps on until it is settled or told to lead.

    One without work wants a transaction for itself: nobody takes it into a group.
    """

    __slots__ = ("answer", "bell", "deadline", "durable", "error", "recheck", "settled", "work", "wrote")

    def __init__(
        self,
        work: Callable[[Transaction], Any] | None,
        recheck: Callable[[Transaction, Any], bool] | None,
        durable: bool,
        deadline: float,
    ) -> None:
        self.work, self.recheck, self.durable, self.deadline = work, recheck, durable, deadline
        self.answer: Any = None
        self.error: BaseException | None = None
        self.wrote = False
        self.settled = False
        self.bell: threading.Lock | None = None

    def hang_bell(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()

    def ring(self) -> None:
        if self.bell is not None:
            self.bell.release()


def _sleep(request: _Request) -> BaseException | None:
    """Wait until settled or told to lead; an interrupt is kept for later, since nobody else would take up the lead."""
    assert request.bell is not None
    interrupted: BaseException | None = None
    while True:
        try:
            request.bell.acquire()
            return interrupted
        except BaseException as error:
            interrupted = error


def _stands(tx: Transaction, request: _Request) -> bool | None:
    """Whether what the request did is there; None when only its caller could tell."""
    if request.error is not None:
        return False
    return request.recheck(tx, request.answer) if request.recheck else None


class Writer:
    """The write side of one SQLite file in this process."""

    def __init__(
        self,
        connection: apsw.Connection,
        queries: dict[str, str],
        *,
        busy_s: float = BUSY_S,
        hold: Hold | None = None,
        reopen: Callable[[], apsw.Connection] | None = None,
    ) -> None:
        """Args: hold: on the file of the connection. reopen: gives another connection, for when this one has failed."""
        path = Path(connection.db_filename("main"))
        reopen = reopen or partial(sqlite.open, path, mode="write")
        self._pen = Pen(connection, queries, hold=hold or Hold(Files(path)), reopen=reopen, busy_s=busy_s)
        self._busy_s = busy_s
        self._waiting: deque[_Request] = deque()
        self._guard = threading.Lock()
        self._led = False
        self._in_block = 0  # the thread that is in a block of its own, and may wait for nobody

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        recheck: Callable[[Transaction, T], bool] | None = None,
        durable: bool = True,
    ) -> T:
        """As `Driver.write`."""
        self._refuse_in_block()
        request = _Request(work, recheck, durable, time.monotonic() + self._busy_s)
        interrupted = None if self._enter(request) else _sleep(request)
        if not request.settled:
            self._lead(request)
        if error := interrupted or request.error:
            raise error
        return request.answer  # type: ignore[no-any-return]

    def block(self) -> Block:
        """As `Driver.block`."""
        self._refuse_in_block()
        request = _Request(None, None, True, time.monotonic() + self._busy_s)
        interrupted = None if self._enter(request) else _sleep(request)
        try:
            self._take([])
            if interrupted:
                raise interrupted
            self._pen.begin(request.deadline)
            self._in_block = threading.get_ident()
            return Block(self._pen, self._leave_block)
        except BaseException as error:
            self._pen.undo(error)
            self._leave_block()
            raise

    def _refuse_in_block(self) -> None:
        if self._in_block == threading.get_ident():
            raise NotAllowed(
                "transaction: this thread is in one; use the transaction's own verbs inside it, and others after it"
            )

    def _leave_block(self) -> None:
        self._in_block = 0
        self._hand_on()

    @property
    def wal_bytes(self) -> int:
        """The length of the WAL after our last transaction."""
        return self._pen.wal_bytes

    def close(self) -> None:
        """Let go of the file; nobody writes any more."""
        self._pen.close()

    def _enter(self, request: _Request) -> bool:
        """Queue the request; true when its caller must lead."""
        with self._guard:
            lead, self._led = not self._led, True
            if not lead:
                request.hang_bell()
            self._waiting.append(request)
            return lead

    def _lead(self, own: _Request) -> None:
        """Settle one group, in which the leader's own request is the first, and pass the lead on."""
        group: list[_Request] = []
        try:
            self._commit(group, own.deadline)
        except BaseException as error:
            if not group:
                self._take(group)
            if not isinstance(error, Exception) and not self._pen.hold.forked:
                self._put_back(group)
            for request in group:
                request.error = error
        finally:
            try:
                self._answer(group)
                self._pen.tend()
            finally:
                self._hand_on()

    def _put_back(self, group: list[_Request]) -> None:
        """The leader was interrupted and all is undone: its followers wait again, ahead of those that came later."""
        followers = group[1:]
        del group[1:]
        for request in followers:
            request.answer = request.error = None
            request.wrote = False
        with self._guard:
            self._waiting.extendleft(reversed(followers))

    def _must_sync(self) -> bool:
        """Whether anyone who waits wants a durable answer; asked before the transaction, which cannot change it."""
        self._pen.hold.check()
        with self._guard:
            return any(request.durable for request in self._waiting)

    def _take(self, group: list[_Request], *, durable: bool = True) -> list[_Request]:
        """Move the next request that waits into the group, unless it asks more than the group gives; what was moved."""
        self._pen.hold.check()  # in a forked child, `_guard` may be held by a thread that is not there
        with self._guard:
            first = self._waiting[0] if self._waiting else None
            fits = first is not None and (durable or not first.durable) and not (group and first.work is None)
            taken = [self._waiting.popleft()] if fits else []
        group += taken
        return taken

    @staticmethod
    def _answer(group: list[_Request]) -> None:
        for request in group:
            request.settled = True
            request.ring()

    def _hand_on(self) -> None:
        if self._pen.hold.forked:
            return
        with self._guard:
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].ring()

    def _commit(self, group: list[_Request], deadline: float) -> None:
        """One immediate transaction; nobody in the group is answered before it is on disk as far as they asked."""
        durable = self._must_sync()
        self._pen.begin(deadline, durable=durable)
        try:
            self._fill(group, durable)
            if durable and not any(request.wrote for request in group):
                self._pen.touch()  # who only looked may have seen what was never synced; an empty commit syncs nothing
        except BaseException as error:
            self._pen.undo(error)
            if isinstance(error, apsw.Error):
                raise self._pen.explained(error) from error
            raise
        try:
            interrupt = self._pen.commit()
        except HalfWay as failed:
            interrupt = self._resolve(group, failed.error)
        group[0].error = group[0].error or interrupt

    def _fill(self, group: list[_Request], durable: bool) -> None:
        started = time.monotonic()
        # The leader's own request is always in: its thread may have been put aside for longer than a group may take.
        while not group or (len(group) < GROUP_REQUESTS and time.monotonic() - started < GROUP_S):
            taken = self._take(group, durable=durable)
            if not taken:
                return
            if len(group) == 1 and not self._waiting:
                # Alone: the transaction itself undoes what raises.
                self._do(taken[0])
                return
            self._run(taken[0])

    def _do(self, request: _Request) -> None:
        assert request.work is not None, "whoever wants a transaction for itself leads it"
        before = self._pen.changes
        request.answer = request.work(self._pen.statements)
        request.wrote = self._pen.changes != before

    def _run(self, request: _Request) -> None:
        """A request that raises undoes its own statements only; its neighbours stand."""
        self._pen.execute("savepoint request")
        try:
            self._do(request)
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, _OF_A_REQUEST):
                raise
            self._pen.hold.check()
            request.error = self._pen.explained(error) if isinstance(error, apsw.Error) else error
            self._pen.execute("rollback to request")
        self._pen.execute("release request")

    def _resolve(self, group: list[_Request], error: apsw.Error) -> BaseException | None:
        """After a commit that failed half-way: find out what became of it, and tell each caller.

        Raises: OutcomeUnknown: to all, since it could not be found out.
        """
        try:
            found = self._pen.seal(lambda tx: [_stands(tx, request) for request in group])
        except BaseException as again:
            raise self._pen.unknown(error) from again
        for request, stands in zip(group, found, strict=True):
            if stands is None:
                request.error = self._pen.unknown(error)
            elif not stands:
                request.error = request.error or self._pen.unmade(error)
        return None
