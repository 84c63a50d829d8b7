"""A transaction that an application's code fills: bounded in time, whoever's fault it is, and undone past its time.

What does not live here: who may write when (`writer`), and what becomes of a failed connection (`pen`).
Locks: `_using` is held while the connection is used, `_changing` for moments only; `_changing` may be taken inside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import apsw

from perenne.core import limits
from perenne.errors import EngineError, TransactionTooLong
from perenne.store.driver import Transaction
from perenne.store.sqlite.pen import HalfWay, Pen
from perenne.store.sqlite.restriction import OF_A_STATEMENT
from perenne.store.starved import starved_s

T = TypeVar("T")

STARVED_LIMITS = 20  # so many limits a block may last in all, when its thread did not get a processor


class Block:
    """A `store.driver.Block` on a connection that has begun a transaction, until it ends."""

    def __init__(self, pen: Pen, hand_on: Callable[[], None]) -> None:
        """Args: hand_on: lets others write again; called once, by the thread that ends it."""
        self._pen, self._hand_on = pen, hand_on
        self._limit_s, self._begun = limits.BLOCK_S, time.monotonic()
        self._thread = threading.get_native_id()
        self._starved_s = starved_s(self._thread)
        self._using, self._changing = threading.Lock(), threading.Lock()
        self._changes = pen.count_changes()
        self._open, self._late, self._ended = True, False, False
        self._wind(self._limit_s)

    def run(self, work: Callable[[Transaction], T]) -> T:
        """As `store.driver.Block.run`."""
        with self._using:
            self._check()
            self._pen.execute("savepoint step")
            try:
                answer = work(self._pen.statements)
            except apsw.Error as error:
                raise self._failed(error) from error
            except BaseException:
                self._back()
                raise
            self._pen.execute("release step")
            return answer

    def commit(self, *, recheck: Callable[[Transaction], bool] | None = None) -> None:
        """As `store.driver.Block.commit`."""
        with self._using:
            self._close()
            self._ended = True
            interrupt: BaseException | None = None
            try:
                interrupt = self._pen.commit()
            except HalfWay as half:
                self._resolve(half.error, recheck)
            finally:
                self._pen.tend()
                self._hand_on()
        if interrupt is not None:
            raise interrupt

    def undo(self) -> None:
        """As `store.driver.Block.undo`."""
        with self._using:
            self._take()
            self._end(None)

    def _check(self) -> None:
        """Raises: TransactionTooLong: it has ended, and others may write by now."""
        if self._left_s() <= 0 and self._take():
            self._late = True
        if not self._open:
            self._end(None)
            raise self._too_late()

    def _close(self) -> None:
        self._check()
        if not self._take():
            raise self._too_late()
        try:
            if self._pen.count_changes() == self._changes:
                self._pen.touch()  # what was only looked at may never have been synced
        except apsw.Error as error:
            raise self._failed(error) from error

    def _take(self) -> bool:
        """Whether the caller is the one that ends it."""
        with self._changing:
            taken, self._open = self._open, False
        self._timer.cancel()
        return taken

    def _end(self, error: BaseException | None) -> None:
        """Undo it, unless that is done or it was committed; the one whose turn it is to use the connection does it."""
        if self._ended:
            return
        self._ended = True
        self._pen.undo(error)
        self._pen.tend()
        self._hand_on()

    def _wind(self, seconds: float) -> None:
        # A block that waits for something may never come back to us: then its time ends here, and the lock with it.
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _left_s(self) -> float:
        """What is left of the block's time: the wall's, less what a loaded machine took from its thread."""
        lasted_s = time.monotonic() - self._begun
        if lasted_s <= self._limit_s:
            return self._limit_s - lasted_s
        own_s = lasted_s - (starved_s(self._thread) - self._starved_s)
        return min(self._limit_s - own_s, STARVED_LIMITS * self._limit_s - lasted_s)

    def _expire(self) -> None:
        left_s = self._left_s()
        with self._changing:
            if not self._open:
                return
            if left_s > 0:
                self._wind(left_s)
                return
            self._open, self._late = False, True
            self._pen.interrupt()  # a statement that runs now ends at once; there is no commit under way
        with self._using:
            self._end(None)

    def _back(self) -> None:
        """The step is undone and the transaction goes on, unless the statement has ended it."""
        if self._pen.in_transaction:
            self._pen.execute("rollback to step")
            self._pen.execute("release step")
        else:
            self._take()
            self._end(None)

    def _failed(self, error: apsw.Error) -> EngineError:
        if not self._late and isinstance(error, OF_A_STATEMENT):
            self._back()
        else:
            self._take()
            self._end(error)
        return self._too_late() if self._late else self._pen.explained(error)

    def _resolve(self, error: apsw.Error, recheck: Callable[[Transaction], bool] | None) -> None:
        try:
            [stands] = self._pen.seal(lambda tx: [recheck(tx) if recheck else None])
        except BaseException as again:
            raise self._pen.unknown(error) from again
        if stands is None:
            raise self._pen.unknown(error)
        if not stands:
            raise self._pen.unmade(error)

    def _too_late(self) -> TransactionTooLong:
        if not self._late:
            return TransactionTooLong("transaction: it has ended already; begin another one")
        return TransactionTooLong(
            f"transaction: it lasted longer than {self._limit_s * 1000:.0f} ms and was undone; do what takes time "
            f"before it or after it, and keep only statements and submits inside",
            limit=self._limit_s,
        )
