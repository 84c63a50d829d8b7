"""The seam between the ledger and a database: named queries inside one transaction.

What lives here: the two protocols. What does not: any SQL, any rule. A database that can do this can hold a ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from perenne.errors import EngineError

T = TypeVar("T")
Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]
Growth = Literal["submit", "claim"]


class Transaction(Protocol):
    """One transaction. Queries are asked by name, parameters given by name."""

    def one(self, query: str, **values: object) -> Row | None:
        """The first row, or None."""

    def all(self, query: str, **values: object) -> list[Row]:
        """Every row."""

    def run(self, query: str, *row: object, **values: object) -> int:
        """Carry out a write, its parameters given by name or, all of them, by place; how many rows it touched."""

    def foreign(self, prefix: str, sql: str, values: Values) -> list[Row]:
        """Carry out a statement that is not ours, on tables whose names begin with `prefix`; its rows.

        Raises: StatementRefused: it touches anything else, or the database refuses it; it changed nothing.
        """


class Block(Protocol):
    """A write transaction that its caller fills step by step, while every other writer waits.

    It is undone by itself when it has lasted for `limits.BLOCK_S`.
    """

    def run(self, work: Callable[[Transaction], T]) -> T:
        """A step, all of it or nothing.

        Raises: TransactionTooLong: all is undone; StoreFailed, DiskLow: so is it then; and whatever `work` raises.
        """

    def commit(self, *, recheck: Callable[[Transaction], bool] | None = None) -> None:
        """Make all of it durable. Args and Raises: as `Driver.write`, and TransactionTooLong."""

    def undo(self) -> None:
        """Nothing of it stands; once it has ended, this does nothing."""


class Driver(Protocol):
    """A database that holds one ledger."""

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        recheck: Callable[[Transaction, T], bool] | None = None,
        durable: bool = True,
        then: Callable[[], None] | None = None,
    ) -> T:
        """Run `work` in a write transaction that no other writer can interleave with; answer after it is durable.

        `work` does no I/O of its own, may run inside a group with others, and changes nothing when it raises. It may be
        undone and run again, when a neighbour in its group failed.
        Args:
            recheck: whether what `work` answered stands, asked in a later transaction when a commit failed half-way.
            durable: false answers once all see it and it survives kill -9; a power cut may take it until the next
            durable write, of whatever process, has been answered. A durable answer vouches for all that `work` saw.
            then: called after the commit and before the answer, once for all in a group that ask for the same; it
                neither waits nor raises.
        Raises:
            StoreBusy, DiskLow, StoreFailed, and whatever `work` raises: nothing was changed.
            OutcomeUnknown: the commit failed half-way, and there is no `recheck`, or the disk still fails.
        """

    def block(self) -> Block:
        """Begin a transaction that is written step by step; it must be committed or undone.

        Raises: NotAllowed: this thread is in one already; StoreBusy, StoreFailed, DiskLow.
        """

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one consistent view; changes nothing.

        Raises: StoreBusy: it took longer than 5 s. StoreFailed, and whatever `work` raises.
        """

    def refusal(self, growth: Growth) -> EngineError | None:
        """Why no new work of this sort may be taken on now, or None. What already runs is recorded all the same."""

    def close(self) -> None:
        """Let go of the database; no file is created or removed."""
