"""The connection that writes: one transaction after the other, and what is done when one fails half-way.

What does not live here: who may write when, and for whom (`writer`).
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from perenne import sqlite
from perenne.errors import EngineError, OutcomeUnknown, StoreBusy, StoreFailed
from perenne.store.driver import Transaction
from perenne.store.sqlite import holders
from perenne.store.sqlite.checkpoints import Checkpoints, cut
from perenne.store.sqlite.guard import Hold
from perenne.store.sqlite.statements import Statements
from perenne.store.sqlite.syncing import Syncing

Verdicts = TypeVar("Verdicts", bound=Sequence[bool | None])

# After these a commit is known not to stand: the last frame of a transaction is its commit, and a WAL that has no room
# for a frame is written no further.
_UNMADE = (apsw.BusyError, apsw.ConstraintError, apsw.FullError)
_BROKEN = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError)


class HalfWay(Exception):
    """A commit failed, and its frames may stand in the WAL."""

    def __init__(self, error: apsw.Error) -> None:
        super().__init__(str(error))
        self.error = error


class Pen:
    """One writing connection; only one thread uses it at a time."""

    def __init__(
        self,
        connection: apsw.Connection,
        queries: dict[str, str],
        *,
        hold: Hold,
        reopen: Callable[[], apsw.Connection],
        busy_s: float,
    ) -> None:
        self._queries, self._files, self._reopen, self._busy_s = queries, hold.files, reopen, busy_s
        self.hold = hold
        self._checkpoints = Checkpoints()
        self.wal_bytes = 0
        self._suspect = False
        self._unproved = False
        self._disk_full = False
        self._ghost: StoreFailed | None = None
        self._use(connection)

    def _use(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.execute = connection.execute
        self.count_changes = connection.total_changes  # what was undone counts, too
        self._syncing = Syncing(connection, self.path)
        self.statements = Statements(connection, self._queries)

    def begin(self, deadline: float, *, durable: bool = True) -> None:
        """Take the write lock; other processes are met by jittered retries until the deadline.

        Args: durable: whether the commit will be synced before it returns.
        Raises: StoreBusy; StoreFailed: also for ever after the files were replaced; DiskLow.
        """
        self.hold.check()
        if self._ghost is not None:
            raise StoreFailed(str(self._ghost), **self._ghost.facts)
        if self._suspect:
            self._renew()
        try:
            self._lock(deadline, durable)
        except BaseException as error:
            self.undo(error)
            if isinstance(error, apsw.Error):
                raise self.explained(error) from error
            raise

    def touch(self) -> None:
        """Write one page as it is, so that the commit has something to write and to sync."""
        self.execute(f"pragma user_version = {self._connection.pragma('user_version')}")

    def _lock(self, deadline: float, durable: bool) -> None:
        if self._connection.in_transaction:
            self.undo(None)  # an interrupt came between two lines of ours
        self._syncing.choose(durable)
        while True:
            try:
                if self._unproved:
                    self._begin_log_anew()
                self.execute("begin immediate")
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise self._busy() from None
                time.sleep(random.uniform(0.0005, 0.01))

    def commit(self) -> BaseException | None:
        """Make the transaction durable, in a file that still has its name; answers an interrupt that came too late.

        Raises: DiskLow, StoreFailed: it is undone, or nobody will see it. HalfWay: nobody knows; `seal` makes it known.
        """
        self.hold.check()
        interrupt: BaseException | None = None
        try:
            self.execute("commit")
        except apsw.Error as error:
            raise self._failed(error) from error
        except BaseException as late:
            if isinstance(late.__context__, apsw.Error):
                raise self._failed(late.__context__) from late
            if self._connection.in_transaction:
                self.undo(late)
                raise
            interrupt = late  # noticed when the commit had just succeeded: it must not undo anything
        try:
            self.wal_bytes = self._files.check()
        except StoreFailed as gone:
            self._ghost = gone
            raise
        return interrupt

    def _failed(self, error: apsw.Error) -> Exception:
        self.undo(error)
        return self.explained(error) if isinstance(error, _UNMADE) else HalfWay(error)

    def undo(self, error: BaseException | None) -> None:
        """Roll back, if SQLite has not done so; a connection that met a fault is replaced before it is used again."""
        self._suspect = self._suspect or isinstance(error, _BROKEN)
        self._disk_full = self._disk_full or isinstance(error, apsw.FullError)
        if self.hold.forked:
            return
        try:
            if self._connection.in_transaction:
                self.execute("rollback")
        except apsw.Error:
            self._suspect = True

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def interrupt(self) -> None:
        """End the statement that runs in another thread, if one does."""
        self._connection.interrupt()

    def seal(self, look: Callable[[Transaction], Verdicts]) -> Verdicts:
        """Make the outcome of a commit that failed half-way final; what `look` finds on a fresh connection.

        Its frames may stand complete in the WAL, unseen, and the next recovery would find them. A commit of our own
        takes their place: only then what is not there will never be. What is there after all is copied into the
        database, since its own sync failed, and repeating a sync of the same bytes proves nothing.

        Frames of relaxed commits before it may be lost to the failed sync as well, and would break the log for all that
        come after them: so no transaction begins before everything is copied and the log begins anew.

        Raises: apsw.Error, EngineError: it is still not known.
        """
        self._suspect = True
        self._renew()
        self._unproved = False
        try:
            self._lock(time.monotonic() + self._busy_s, durable=True)
            found = look(self.statements)
            self.touch()
            self.execute("commit")
        except BaseException as error:
            self.undo(error)
            raise
        finally:
            self._unproved = True
        if any(found):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        with contextlib.suppress(apsw.Error):  # who begins next tries again
            self._begin_log_anew()
        return found

    def _begin_log_anew(self) -> None:
        cut(self._connection)
        self._unproved = False

    def _renew(self) -> None:
        # The new one is open before the old one is closed: were there none between, the next to open would recover the
        # WAL, and a commit that failed would stand.
        fresh = self._reopen()
        self._connection.close(True)
        self._use(fresh)
        self._files.check()
        self._suspect = False

    def tend(self) -> None:
        """Between two transactions: keep the WAL short."""
        if not self._suspect and not self.hold.forked:
            self.wal_bytes = self._checkpoints.tend(self._connection, self.wal_bytes, disk_full=self._disk_full)
            self._disk_full = False

    def close(self) -> None:
        """Twice is once."""
        if self._ghost is not None:
            # Our log is nobody's any more: copied over the database it would undo what others committed since.
            with contextlib.suppress(apsw.ConnectionClosedError):
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()

    @property
    def path(self) -> Path:
        return self._files.path

    def explained(self, error: apsw.Error) -> EngineError:
        return sqlite.explain(error, self.path)

    def unmade(self, error: apsw.Error) -> EngineError:
        """The error of a change that is known not to have been made, although its commit failed half-way."""
        return type(self.explained(error))(
            f"store {self.path}: {error} at the commit; the change was not made and will not appear: check the disk, "
            f"then try again",
            path=str(self.path),
            reason=str(error),
        )

    def unknown(self, reason: object) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"store {self.path}: {reason} at the commit; it is not known whether the change was made: look, then ask "
            f"again with the same id",
            path=str(self.path),
            reason=str(reason),
        )

    def _busy(self) -> StoreBusy:
        found = holders.writers(self.path)
        return StoreBusy(
            f"store {self.path}: {holders.sentence(found, 'another process')} held the write lock for "
            f"{self._busy_s:g} s; end or continue it, then try again",
            path=str(self.path),
            limit=self._busy_s,
            holders=[holder.pid for holder in found],
        )
