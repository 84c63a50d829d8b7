"""What stands in one transaction or not at all: submits, the end of an attempt, and an application's own statements.

What does not live here: what a statement may touch (the drivers), and whose code fills the transaction (`runtime`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from perenne.core.job import Durability, Job, Receipt, Submission
from perenne.core.states import JobState
from perenne.crashpoints import crash_point
from perenne.store import intake, proof, turns
from perenne.store.driver import Block, Driver, Row, Transaction, Values


class OwnTables:
    """The application's own tables, inside a transaction."""

    def __init__(self, block: Block, prefix: str) -> None:
        self._block, self._prefix = block, prefix

    def execute(self, sql: str, values: Values = ()) -> list[Row]:
        """Carry out a statement on tables of the application's prefix; the rows it gives.

        Args: values: for `?` by place, for `:name` by name.
        Raises: StatementRefused: it touches another table, or breaks a rule of its own; it changed nothing then.
        TransactionTooLong: all of the transaction is undone. StoreFailed, DiskLow: so is it then.
        """
        return self._block.run(lambda tx: tx.foreign(self._prefix, sql, values))


class Together:
    """An open transaction that takes submits and statements."""

    def __init__(self, block: Block, prefix: str, now: int, actor: str) -> None:
        self._block, self._now, self._actor = block, now, actor
        self.tables = OwnTables(block, prefix)
        self.receipts: list[Receipt] = []

    def submit(self, wanted: Submission) -> Receipt:
        """As `Ledger.submit`, durable with all the rest or never; a refused one undoes itself alone."""
        intake.check(wanted)
        wanted = msgspec.structs.replace(wanted, durability=Durability.DURABLE)
        receipt = self._block.run(lambda tx: intake.find_or_insert(tx, wanted, self._now, self._actor))
        self.receipts.append(receipt)
        return receipt

    def stands(self) -> Callable[[Transaction], bool] | None:
        """How to find out whether it was committed; None when it made no job by which it could be known."""
        made = [receipt for receipt in self.receipts if not receipt.reused]
        return (lambda tx: proof.stored(tx, *made)) if made else None


@contextmanager
def together(driver: Driver, prefix: str, *, now: int, actor: str) -> Iterator[Together]:
    """A transaction that is durable once the block is left, or undone when the block raises.

    Raises: DiskLow, StoreBusy, StoreFailed; NotAllowed: this thread is in one; TransactionTooLong; OutcomeUnknown.
    """
    refusal = driver.refusal("submit")
    if refusal is not None:
        raise refusal
    block = driver.block()
    try:
        opened = Together(block, prefix, now, actor)
        yield opened
        crash_point("submit.written")
        block.commit(recheck=opened.stands())
    finally:
        block.undo()
    crash_point("submit.committed")


def complete(
    driver: Driver,
    ending: turns.Ending,
    also: Callable[[OwnTables], object],
    prefix: str,
    *,
    about_to: Callable[[], object],
    now: int,
    actor: str,
) -> list[Job]:
    """Record the end of an attempt and run `also` in the same transaction, if the job is completed by it.

    Args: about_to: called when nothing is left to do but the commit.
    Returns: as `Ledger.end`.
    Raises: StaleToken: `also` was not called. TransactionTooLong, StoreBusy, StoreFailed, DiskLow, and whatever `also`
    raises: nothing was written. OutcomeUnknown.
    Guarantees: what `also` wrote is there exactly when this attempt completed the job; killed at any point, too.
    """
    block = driver.block()
    try:
        end = partial(turns.end, ending=ending, now=now, actor=actor)
        jobs = block.run(end)
        if jobs[0].state is JobState.COMPLETED:
            also(OwnTables(block, prefix))
        about_to()
        crash_point("acknowledge.written")
        block.commit(recheck=lambda tx: proof.ended(tx, ending.token))
    finally:
        block.undo()
    crash_point("acknowledge.committed")
    return jobs
