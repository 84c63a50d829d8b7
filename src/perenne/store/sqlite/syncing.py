"""Whether the commits of one connection are synced before they return, chosen between transactions and read back.

In WAL mode `normal` leaves out only the sync of a commit: a log that begins anew and a copy into the database are
synced as with `full`, so nothing can be damaged. The next sync of the log, by whoever, covers every frame before it.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from perenne.errors import StoreFailed

_LEVELS = {True: ("full", 2), False: ("normal", 1)}


class Syncing:
    """The level of one connection, which `sqlite.open` has set to `full` and read back."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._durable: bool | None = True

    def choose(self, durable: bool) -> None:
        """Set what the next transactions get; outside of a transaction only.

        Raises: StoreFailed: SQLite did not take it.
        """
        if durable is self._durable:
            return
        self._durable = None  # not known while an interrupt may come between the next two lines
        name, level = _LEVELS[durable]
        self._connection.pragma("synchronous", name)
        found = self._connection.pragma("synchronous")
        if found != level:
            raise StoreFailed(
                f"store {self._path}: setting synchronous={name} did not take, SQLite says {found!r}; "
                f"close its other connections, then open it again",
                path=str(self._path),
                wanted=level,
                found=found,
            )
        self._durable = durable
