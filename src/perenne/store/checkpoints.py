"""What the ledger knows of the last checkpoint of a job, and how an attempt replaces it: one guarded statement.

What does not live here: the record itself (`files.record`), and files (`files.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perenne.core.job import Token
from perenne.crashpoints import crash_point
from perenne.store import turns, writes
from perenne.store.driver import Driver, Transaction
from perenne.store.together import OwnTables

Progress = tuple[int, int | None, str | None]


class Saved(msgspec.Struct, frozen=True):
    """One checkpoint, as its row says. Without a record it lies in a file of this size and digest.

    attempt, number: who saved it; generation: its how-many-th save. saved_at: UTC microseconds.
    """

    attempt: str
    number: int
    generation: int
    sequences: int
    size_bytes: int
    digest: str
    record: bytes | None
    saved_at: int


class Checkpoints:
    """The checkpoints of one ledger."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def of(self, job_id: str) -> Saved | None:
        """What was saved last for a job, whoever saved it."""
        row = self._driver.read(lambda tx: tx.one("checkpoint_of_job", job_id=job_id))
        return None if row is None else Saved(*row)

    def save(
        self,
        token: Token,
        saved: Saved,
        progress: Progress | None,
        also: Callable[[OwnTables], object] | None = None,
        prefix: str = "",
    ) -> None:
        """Make this the last checkpoint of the token's job, with its progress, and what `also` writes.

        Args: also: called with the tables of the application's prefix, in the same transaction.
        Raises: StaleToken: nothing was written. StorageError, DiskLow, TransactionTooLong, and whatever `also` raises.
        """

        def work(tx: Transaction) -> None:
            if not tx.run("save_checkpoint", **_columns(token, saved)):
                raise writes.stale(token.job_id, token, turns.find(tx, token.job_id))
            if progress is not None:
                done, total, message = progress
                values = {"done": done, "total": total, "message": message, "now": saved.saved_at}
                tx.run("set_progress", **values, **msgspec.structs.asdict(token))

        if also is None:
            self._driver.write(_pointed(work), recheck=lambda tx, _: _stands(tx, token, saved))
        else:
            self._save_with(work, also, prefix, lambda tx: _stands(tx, token, saved))
        crash_point("checkpoint.committed")

    def _save_with(
        self,
        work: Callable[[Transaction], None],
        also: Callable[[OwnTables], object],
        prefix: str,
        stands: Callable[[Transaction], bool],
    ) -> None:
        block = self._driver.block()
        try:
            block.run(work)
            also(OwnTables(block, prefix))
            crash_point("checkpoint.written")
            block.commit(recheck=stands)
        finally:
            block.undo()

    def kept(self) -> dict[str, str]:
        """The state of each job that has a checkpoint, by its id."""
        return dict(self._driver.read(lambda tx: [(row[0], row[1]) for row in tx.all("jobs_with_checkpoints")]))

    def drop_completed(self) -> None:
        """Forget the checkpoints of jobs that are completed: nothing goes on from them."""
        self._driver.write(lambda tx: tx.run("drop_checkpoints_of_completed"), recheck=lambda tx, _: True)


def _pointed(work: Callable[[Transaction], None]) -> Callable[[Transaction], None]:
    def pointed(tx: Transaction) -> None:
        work(tx)
        crash_point("checkpoint.written")

    return pointed


def _columns(token: Token, saved: Saved) -> dict[str, object]:
    columns = msgspec.structs.asdict(saved)
    columns["now"] = columns.pop("saved_at")
    return columns | {"job_id": token.job_id, "epoch": token.epoch, "attempt": token.attempt, "number": token.number}


def _stands(tx: Transaction, token: Token, saved: Saved) -> bool:
    row = tx.one("checkpoint_of_job", job_id=token.job_id)
    return row is not None and Saved(*row) == saved
