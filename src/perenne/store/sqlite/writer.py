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
from typing import TypeVar

import apsw

from perenne import sqlite
from perenne.errors import NotAllowed
from perenne.store.driver import Transaction
from perenne.store.sqlite.block import Block
from perenne.store.sqlite.ghost import Files
from perenne.store.sqlite.guard import Hold
from perenne.store.sqlite.pen import HalfWay, Pen
from perenne.store.sqlite.requests import Request

T = TypeVar("T")

GROUP_REQUESTS = 256
GROUP_S = 0.005
BUSY_S = 5.0


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
        self._waiting: deque[Request] = deque()
        self._guard = threading.Lock()
        self._led = False
        self._in_block = 0  # the thread that is in a block of its own, and may wait for nobody

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        recheck: Callable[[Transaction, T], bool] | None = None,
        durable: bool = True,
        then: Callable[[], None] | None = None,
    ) -> T:
        """As `Driver.write`."""
        self._refuse_in_block()
        request = Request(work, recheck, durable, then, time.monotonic() + self._busy_s)
        interrupted = None if self._enter(request) else request.sleep()
        if not request.settled:
            self._lead(request)
        if error := interrupted or request.error:
            raise error
        return request.answer  # type: ignore[no-any-return]

    def block(self) -> Block:
        """As `Driver.block`."""
        self._refuse_in_block()
        request = Request(None, None, True, None, time.monotonic() + self._busy_s)
        interrupted = None if self._enter(request) else request.sleep()
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

    def _enter(self, request: Request) -> bool:
        """Queue the request; true when its caller must lead."""
        with self._guard:
            lead, self._led = not self._led, True
            if not lead:
                request.hang_bell()
            self._waiting.append(request)
            return lead

    def _lead(self, own: Request) -> None:
        """Settle one group, in which the leader's own request is the first, and pass the lead on."""
        group: list[Request] = []
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

    def _put_back(self, group: list[Request]) -> None:
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
        if len(self._waiting) == 1:
            return self._waiting[0].durable
        with self._guard:
            return any(request.durable for request in self._waiting)

    def _take(self, group: list[Request], *, durable: bool = True) -> Request | None:
        """Move the next request that waits into the group, unless it asks more than the group gives.

        Only who leads takes any, so no lock is needed.
        """
        self._pen.hold.check()
        first = self._waiting[0] if self._waiting else None
        if first is None or (first.durable and not durable) or (group and first.work is None):
            return None
        group.append(self._waiting.popleft())
        return first

    @staticmethod
    def _answer(group: list[Request]) -> None:
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

    def _commit(self, group: list[Request], deadline: float) -> None:
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
        try:
            self._call_once(group)
        except BaseException as late:
            interrupt = interrupt or late  # all is durable: it concerns the leader alone
        group[0].error = group[0].error or interrupt

    @staticmethod
    def _call_once(group: list[Request]) -> None:
        """What the members want done after their commit, once for all that want the same."""
        for then in {request.then for request in group if request.error is None}:
            if then is not None:
                then()

    def _fill(self, group: list[Request], durable: bool) -> None:
        """Run request after request, without a savepoint each until one fails that has written something."""
        started, run = time.monotonic(), Request.run
        # The leader's own request is always in: its thread may have been put aside for longer than a group may take.
        while not group or (len(group) < GROUP_REQUESTS and time.monotonic() - started < GROUP_S):
            request = self._take(group, durable=durable)
            if request is None:
                return
            if len(group) == 1 and not self._waiting:
                # Alone: the transaction itself undoes what raises.
                request.do(self._pen)
                return
            if not run(request, self._pen) and request.wrote:
                self._start_again(group, durable)
                run = Request.run_apart

    def _start_again(self, group: list[Request], durable: bool) -> None:
        """Undo the whole group, and run its members again, each so that it can be undone by itself."""
        self._pen.undo(None)
        self._pen.begin(group[0].deadline, durable=durable)
        for request in group:
            request.run_apart(self._pen)

    def _resolve(self, group: list[Request], error: apsw.Error) -> BaseException | None:
        """After a commit that failed half-way: find out what became of it, and tell each caller.

        Raises: OutcomeUnknown: to all, since it could not be found out.
        """
        try:
            found = self._pen.seal(lambda tx: [request.stands(tx) for request in group])
        except BaseException as again:
            raise self._pen.unknown(error) from again
        for request, stands in zip(group, found, strict=True):
            if stands is None:
                request.error = self._pen.unknown(error)
            elif not stands:
                request.error = request.error or self._pen.unmade(error)
        return None
