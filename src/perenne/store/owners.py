"""Workers as rows: who took the lock, who left, who was proved dead, and which attempts a dead one left running.

Rows are for people and for recovery; that an owner lives is proved by its kernel lock alone, never by a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perenne.core.job import Attempt
from perenne.crashpoints import crash_point
from perenne.store import rows
from perenne.store.driver import Driver, Transaction

LOOKED_THROUGH = 50_000  # attempts, in some 10 ms
MOST_FORGOTTEN = 256


class Owner(msgspec.Struct, frozen=True):
    """One worker process: its id, and what tells it from another process of the same number."""

    id: str
    pid: int
    boot_id: str
    started: str


class Owners:
    """The workers of one workspace."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def join(self, owner: Owner, *, now: int) -> None:
        """Enter a worker that holds its lock."""
        self._driver.write(
            lambda tx: tx.run("insert_owner", **msgspec.structs.asdict(owner), now=now),
            recheck=lambda tx, _: tx.one("owner_present", id=owner.id) is not None,
        )
        crash_point("owner.joined")

    def leave(self, owner_id: str, *, now: int) -> None:
        """Note that a worker left or is proved dead; twice is once."""
        self._driver.write(
            lambda tx: tx.run("close_owner", id=owner_id, now=now),
            recheck=lambda tx, _: tx.one("owner_present", id=owner_id) is None,
        )
        crash_point("owner.left")

    def present(self) -> list[Owner]:
        """The workers that have not left, or left an attempt behind, oldest first; some may be dead."""
        return [Owner(*row[:4]) for row in self._driver.read(lambda tx: tx.all("list_owners"))]

    def running(self, owner_id: str) -> list[Attempt]:
        """The attempts of one worker that have not ended, oldest job first."""
        return [attempt for attempt in self._driver.read(_running) if attempt.owner == owner_id]

    def open_attempts(self) -> set[str]:
        """Ids of all attempts that have not ended."""
        return {attempt.id for attempt in self._driver.read(_running)}

    def forgettable(self, *, left_before: int) -> tuple[list[str], int]:
        """Ids of workers that left before and that no attempt names, oldest first; how many may go in one transaction.

        None in a ledger with more than 50,000 attempts: SQLite looks through all of them for each row that goes.
        Args: left_before: UTC microseconds.
        """

        def look(tx: Transaction) -> tuple[list[str], int]:
            ((attempts,),) = tx.all("count_attempts", most=LOOKED_THROUGH + 1)
            if attempts > LOOKED_THROUGH:
                return [], 0
            found = tx.all("forgettable_owners", left_before=left_before)
            return [row[0] for row in found], min(max(LOOKED_THROUGH // max(attempts, 1), 1), MOST_FORGOTTEN)

        return self._driver.read(look)

    def forget(self, ids: Sequence[str]) -> int:
        """Remove those of these workers that still left and that no attempt names; how many went."""
        named = rows.listed(ids)
        forgotten = self._driver.write(lambda tx: tx.run("forget_owners", ids=named))
        crash_point("purge.owners_forgotten")
        return forgotten

    def epoch(self) -> int:
        """The store's epoch, the third part of each token."""
        row = self._driver.read(lambda tx: tx.one("read_store"))
        assert row is not None
        return int(row[1])


def _running(tx: Transaction) -> list[Attempt]:
    return [rows.attempt(row) for row in tx.all("open_attempts")]
