"""Named queries on one connection: what a transaction of the store is to whoever works in it."""

from __future__ import annotations

import apsw

from perenne.store.driver import Row, Values
from perenne.store.sqlite.restriction import Restriction


class Statements:
    """Named queries on one connection."""

    def __init__(self, connection: apsw.Connection, queries: dict[str, str]) -> None:
        # One cursor for all: each has its rows fetched before the next begins, and a new one costs as much as a query.
        self._execute = connection.cursor().execute
        self._changes = connection.changes
        self._queries = queries
        self._restriction = Restriction(connection)

    def one(self, query: str, **values: object) -> Row | None:
        rows = self._execute(self._queries[query], values).fetchall()
        return rows[0] if rows else None

    def all(self, query: str, **values: object) -> list[Row]:
        return self._execute(self._queries[query], values).fetchall()

    def run(self, query: str, *row: object, **values: object) -> int:
        self._execute(self._queries[query], row or values)
        return self._changes()

    def foreign(self, prefix: str, sql: str, values: Values) -> list[Row]:
        return self._restriction.execute(prefix, sql, values)
