"""One writer at a time a process: callers that meet while a commit is under way share the next one.

No thread of its own: the caller that finds nobody writing leads, commits for all that wait, and hands the lead on.
A lone caller pays for no switch between threads; many callers pay for one fsync together.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from perenne import sqlite
from perenne.errors import StoreBusy
from perenne.store.driver import Row, Transaction

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


class Statements:
    """Named queries on one connection."""

    def __init__(self, connection: apsw.Connection, queries: dict[str, str]) -> None:
        # One cursor for all: each has its rows fetched before the next begins, and a new one costs as much as a query.
        self._execute = connection.cursor().execute
        self._changes = connection.changes
        self._queries = queries

    def one(self, query: str, **values: object) -> Row | None:
        rows = self._execute(self._queries[query], values).fetchall()
        return rows[0] if rows else None

    def all(self, query: str, **values: object) -> list[Row]:
        return self._execute(self._queries[query], values).fetchall()

    def run(self, query: str, **values: object) -> int:
        self._execute(self._queries[query], values)
        return self._changes()


class _Request:
    """One caller's work, and the lock a caller that must wait sleeps on until it is settled or told to lead."""

    __slots__ = ("answer", "bell", "deadline", "error", "settled", "work")

    def __init__(self, work: Callable[[Transaction], Any], deadline: float) -> None:
        self.work = work
        self.deadline = deadline
        self.answer: Any = None
        self.error: BaseException | None = None
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


class Writer:
    """The write side of one SQLite file in this process."""

    def __init__(self, connection: apsw.Connection, queries: dict[str, str], *, busy_s: float = BUSY_S) -> None:
        self._connection = connection
        self._statements = Statements(connection, queries)
        self._busy_s = busy_s
        self._waiting: deque[_Request] = deque()
        self._guard = threading.Lock()
        self._led = False

    def write(self, work: Callable[[Transaction], T]) -> T:
        """As `Driver.write`."""
        request = _Request(work, time.monotonic() + self._busy_s)
        interrupted = None if self._enter(request) else _sleep(request)
        if not request.settled:
            self._lead()
        if error := interrupted or request.error:
            raise error
        return request.answer  # type: ignore[no-any-return]

    def _enter(self, request: _Request) -> bool:
        """Queue the request; true when its caller must lead."""
        with self._guard:
            lead, self._led = not self._led, True
            if not lead:
                request.hang_bell()
            self._waiting.append(request)
            return lead

    def _lead(self) -> None:
        """Settle one group, in which the leader's own request is the first, and pass the lead on."""
        group: list[_Request] = []
        try:
            self._commit(group)
        except BaseException as error:
            group = group or self._take()
            if not isinstance(error, Exception):
                self._put_back(group)
            for request in group:
                request.error = request.error or error
        finally:
            self._pass_on(group)

    def _put_back(self, group: list[_Request]) -> None:
        """The leader was interrupted and all is undone: its followers wait again, ahead of those that came later."""
        followers = group[1:]
        del group[1:]
        for request in followers:
            request.answer = request.error = None
        with self._guard:
            self._waiting.extendleft(reversed(followers))

    def _take(self) -> list[_Request]:
        with self._guard:
            return [self._waiting.popleft()] if self._waiting else []

    def _pass_on(self, group: list[_Request]) -> None:
        for request in group:
            request.settled = True
            request.ring()
        with self._guard:
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].ring()

    def _commit(self, group: list[_Request]) -> None:
        """One immediate transaction; nobody in the group is answered before it is durable."""
        try:
            self._begin(self._waiting[0].deadline)
            self._fill(group)
            interrupt = self._make_durable()
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            explained = self._explained(error)
            raise explained from explained.__cause__
        group[0].error = group[0].error or interrupt

    def _make_durable(self) -> BaseException | None:
        """Commit; an interrupt noticed when that has just succeeded is answered: it must not undo anything."""
        try:
            self._connection.execute("commit")
        except Exception:
            raise
        except BaseException as interrupt:
            if self._connection.in_transaction:
                raise
            if isinstance(interrupt.__context__, apsw.Error):
                raise interrupt.__context__ from None
            return interrupt
        return None

    def _explained(self, error: BaseException) -> BaseException:
        """Our error for one of SQLite's; any other as it is."""
        if not isinstance(error, apsw.Error):
            return error
        explained = sqlite.explain(error, Path(self._connection.db_filename("main")))
        explained.__cause__ = error
        return explained

    def _fill(self, group: list[_Request]) -> None:
        started = time.monotonic()
        # The leader's own request is always in: its thread may have been put aside for longer than a group may take.
        while not group or (len(group) < GROUP_REQUESTS and time.monotonic() - started < GROUP_S):
            taken = self._take()
            if not taken:
                return
            group += taken
            if len(group) == 1 and not self._waiting:
                # Alone: the transaction itself undoes what raises.
                taken[0].answer = taken[0].work(self._statements)
                return
            self._run(taken[0])

    def _run(self, request: _Request) -> None:
        """A request that raises undoes its own statements only; its neighbours stand."""
        self._connection.execute("savepoint request")
        try:
            request.answer = request.work(self._statements)
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, _OF_A_REQUEST):
                raise
            request.error = self._explained(error)
            self._connection.execute("rollback to request")
        self._connection.execute("release request")

    def _begin(self, deadline: float) -> None:
        """Take the write lock; other processes are met by jittered retries until the leader's deadline.

        Raises: StoreBusy.
        """
        while True:
            try:
                self._connection.execute("begin immediate")
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise StoreBusy(
                        f"{self._connection.db_filename('main')}: another process held the write lock for "
                        f"{self._busy_s:g} s; end or continue it, then try again",
                        limit=self._busy_s,
                    ) from None
                time.sleep(random.uniform(0.0005, 0.01))
