"""One caller's work on its way through the writer: run, answered or refused, and slept on meanwhile.

What does not live here: who leads, and which requests share a transaction (`writer`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import apsw

from perenne.store.driver import Transaction
from perenne.store.sqlite.pen import Pen
from perenne.store.sqlite.restriction import OF_A_REQUEST


class Request:
    """One caller's work, and the lock a caller that must wait sleeps on until it is settled or told to lead.

    One without work wants a transaction for itself: nobody takes it into a group.
    """

    answer: Any = None
    error: BaseException | None = None
    wrote = False
    settled = False
    bell: threading.Lock | None = None

    def __init__(
        self,
        work: Callable[[Transaction], Any] | None,
        recheck: Callable[[Transaction, Any], bool] | None,
        durable: bool,
        then: Callable[[], None] | None,
        deadline: float,
    ) -> None:
        self.work, self.recheck, self.durable = work, recheck, durable
        self.then, self.deadline = then, deadline

    def hang_bell(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()

    def ring(self) -> None:
        if self.bell is not None:
            self.bell.release()

    def sleep(self) -> BaseException | None:
        """Wait until settled or told to lead; an interrupt is kept, since nobody else would take up the lead."""
        assert self.bell is not None
        interrupted: BaseException | None = None
        while True:
            try:
                self.bell.acquire()
                return interrupted
            except BaseException as error:
                interrupted = error

    def do(self, pen: Pen) -> None:
        """Run in the transaction that is open; whatever is raised comes through."""
        assert self.work is not None, "whoever wants a transaction for itself leads it"
        before = pen.count_changes()
        self.answer = self.error = None
        try:
            self.answer = self.work(pen.statements)
        finally:
            self.wrote = pen.count_changes() != before

    def run(self, pen: Pen) -> bool:
        """Whether it could be carried out; the error that it can be blamed for is kept for its caller."""
        try:
            self.do(pen)
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, OF_A_REQUEST):
                raise
            pen.hold.check()
            self.error = pen.explained(error) if isinstance(error, apsw.Error) else error
        return self.error is None

    def run_apart(self, pen: Pen) -> bool:
        """As `run`; when it fails its own statements are undone, and its neighbours stand.

        Not the usual way: a savepoint costs as much as a statement, and few requests fail once they have written.
        """
        pen.execute("savepoint request")
        done = self.run(pen)
        if not done:
            pen.execute("rollback to request")
            self.wrote = False
        pen.execute("release request")
        return done

    def stands(self, tx: Transaction) -> bool | None:
        """Whether what it did is there, in a later transaction; None when only its caller could tell."""
        if self.error is not None:
            return False
        return self.recheck(tx, self.answer) if self.recheck else None
