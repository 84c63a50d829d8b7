"""An application's own statements in the ledger's database: judged by SQLite's authorizer, table by table.

What does not live here: transactions (`block`), and which prefix an application has (`store.apptables`).
"""

from __future__ import annotations

from typing import Any, Literal

import apsw

from perenne.errors import StatementRefused
from perenne.store.apptables import is_ours
from perenne.store.driver import Row, Values

# What the statements of one request can be blamed for; any other error of SQLite concerns the file, thus the group.
OF_A_REQUEST = (
    apsw.ConstraintError,
    apsw.SQLError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
)
# A foreign statement is also blamed for its bindings and its tables; ours err there by a fault of the program.
OF_A_STATEMENT = (*OF_A_REQUEST, apsw.BindingsError, apsw.AuthError)
_TABLES = {apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE}
_SCHEMA = {
    apsw.SQLITE_CREATE_TABLE,
    apsw.SQLITE_DROP_TABLE,
    apsw.SQLITE_CREATE_INDEX,
    apsw.SQLITE_DROP_INDEX,
    apsw.SQLITE_CREATE_TRIGGER,
    apsw.SQLITE_DROP_TRIGGER,
    apsw.SQLITE_CREATE_VIEW,
    apsw.SQLITE_DROP_VIEW,
    apsw.SQLITE_REINDEX,
}
_HARMLESS = {apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE}
_VALUES = {"json_each", "json_tree"}  # they read what they are given, and no table
_OF_SQLITE = {"sqlite_master", "sqlite_temp_master", "sqlite_sequence"}  # it lets nobody else write there

Scope = Literal["rows", "schema"]


class Restriction:
    """What foreign statements on one connection may touch; our own pass it as if it were not there.

    The authorizer is asked when a statement is prepared. A foreign one is prepared for each call and never kept, so
    that neither our text nor a foreign one ever runs under the other's judgement.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._prefix: str | None = None
        self._scope: Scope = "rows"
        self._refused: str | None = None
        self._installed = False

    def execute(self, prefix: str, sql: str, values: Values = (), *, scope: Scope = "rows") -> list[Row]:
        """Carry out one or more statements; the rows they give.

        Args: scope: `schema`: tables, indexes, views and triggers of the prefix may be made, changed and dropped, too.
        Raises: StatementRefused: names the table, or what SQLite says. apsw.Error: of the file.
        """
        if not self._installed:
            # For good: setting it anew would make SQLite prepare each of our statements again.
            self._connection.authorizer = self._judge
            self._installed = True
        self._prefix, self._scope, self._refused = prefix, scope, None
        try:
            return self._connection.cursor().execute(sql, values, can_cache=False).fetchall()
        except (*OF_A_STATEMENT, TypeError, ValueError) as error:
            raise self._explained(error, sql) from None
        finally:
            self._prefix = None

    def _explained(self, error: Exception, sql: str) -> StatementRefused:
        asked = " ".join(str(sql).split())[:200]
        why = f"it {self._refused}; only tables {self._prefix}… may be touched" if self._refused else str(error)
        return StatementRefused(f"statement {asked!r}: {why}", statement=asked, reason=why)

    def _judge(self, action: int, first: str | None, second: str | None, base: str | None, _: str | None) -> int:
        if self._prefix is None or self._allows(action, first, second, base):
            return apsw.SQLITE_OK
        name = apsw.mapping_authorizer_function.get(action, str(action))
        words = str(name).removeprefix("SQLITE_").replace("_", " ").lower()
        self._refused = f"asks for {words} {first or ''} {second or ''}".strip()
        return apsw.SQLITE_DENY

    def _allows(self, action: int, first: str | None, second: str | None, base: str | None) -> bool:
        if action in _HARMLESS:
            return True
        if action == apsw.SQLITE_FUNCTION:
            return (second or "").lower() != "load_extension"
        if action in _TABLES:
            if self._scope == "schema" and first in _OF_SQLITE:
                return True
            if action == apsw.SQLITE_READ and not second:
                return not is_ours(first or "")  # of no column: a count, or a name that the statement gives itself
            return base == "main" and (self._owns(first) or first in _VALUES)
        return self._scope == "schema" and self._may_change(action, first, second)

    def _may_change(self, action: int, first: str | None, second: str | None) -> bool:
        if action == apsw.SQLITE_ALTER_TABLE:
            return self._owns(second)
        if action not in _SCHEMA:
            return False
        return (self._owns(first) or (first or "").startswith("sqlite_")) and (second is None or self._owns(second))

    def _owns(self, name: Any) -> bool:
        """Whether a table, an index, a view or a trigger is the application's; SQLite ignores case in names."""
        assert self._prefix is not None
        return isinstance(name, str) and name.lower().startswith(self._prefix)
