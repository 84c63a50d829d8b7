"""A ledger as a stream of records, in the order in which they can be put into another one.

What does not live here: what a record may hold (`records`), the file (`runtime.transfer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from perenne.errors import StoreFailed
from perenne.store import records, rows
from perenne.store.driver import Row, Transaction
from perenne.store.records import Record

PAGE_ROWS = 64  # of at most half a MiB each


class Source(msgspec.Struct, frozen=True):
    """What a ledger does not know about its workspace."""

    name: str
    app: str


def header(tx: Transaction, source: Source, *, now: int) -> records.Header:
    """The first record: whose ledger this is, and how much there is in it."""
    store, counts, schema = tx.one("read_store"), tx.one("export_counts"), tx.one("schema_version")
    assert store is not None
    assert counts is not None
    assert schema is not None
    workspace, epoch, paused, stopped = store
    return records.Header(
        workspace=workspace,
        name=source.name,
        app=source.app,
        epoch=epoch,
        schema=schema[0],
        paused=bool(paused),
        stopped=bool(stopped),
        exported_at=now,
        counts=records.Counts(*counts),
    )


def body(tx: Transaction) -> Iterator[Record]:
    """Every row as a record; pages of it are in memory, never the whole.

    The transaction must see one state of the ledger throughout.
    Raises: StoreFailed: a row holds what no ledger of ours would hold.
    """
    for row in tx.all("list_queues"):
        yield _made(records.Queue, row)
    for row in _pages(tx, "export_owners", ""):
        yield _made(records.Owner, row)
    for row in _pages(tx, "export_listeners", ""):
        yield _made(records.Listener, row)
    for row in _pages(tx, "list_jobs", 0, state=None):
        yield _made(records.Job, msgspec.structs.astuple(rows.job(row)))
    for row in _pages(tx, "export_attempts", 0, 0):
        yield _made(records.Attempt, row[2:])
    for row in _pages(tx, "export_dependencies", 0, 0):
        yield _made(records.Dependency, row[2:])
    for row in _pages(tx, "list_history", 0):
        yield _made(records.History, row)
    for row in _pages(tx, "export_notices", ""):
        yield _made(records.Notice, row)


def _pages(tx: Transaction, query: str, *after: int | str, **values: object) -> Iterator[Row]:
    """Every row of a paged query; its first columns say where the next page begins."""
    while True:
        place = dict(zip(("after", "then"), after, strict=False))
        page = tx.all(query, limit=PAGE_ROWS, **place, **values)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1][: len(after)]


def _made(kind: Callable[..., Record], row: Row) -> Record:
    """The row through the same checks that its line will meet when it is imported."""
    try:
        fields = dict(zip(kind.__struct_fields__, row, strict=True))  # type: ignore[attr-defined]
        return msgspec.convert(fields, kind, strict=False)  # type: ignore[no-any-return]
    except (msgspec.ValidationError, ValueError) as error:
        name = kind.__name__.lower()
        raise StoreFailed(
            f"the ledger holds a {name} that cannot be exported: {error}; ask `doctor`", record=name
        ) from error
