"""Jobs that another program kept, taken into a new workspace as records, with rows of the application beside them.

What lives here: one call of an application. What does not: how that program's store is read (the application), what a
record may hold (`store.records`), where it goes (`store.adoption`), and settling what ran there (`recovery`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Required, TypedDict, Unpack

from perenne.core.limits import is_visible
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, StoreExists
from perenne.files.workspace import Workspace
from perenne.runtime.transfer import Imported, stands
from perenne.store import apptables, records
from perenne.store.adoption import Adoption
from perenne.store.driver import Driver, Row, Transaction, Values

Also = Callable[[Callable[[str, Values], list[Row]]], object]

_EPOCH = 1  # of a store that has none: ours is higher from then on


Into = tuple[Workspace, Driver, int, str]  # where it goes; the moment in UTC microseconds, and the actor


class Source(TypedDict, total=False):
    """What is said of the whole store. See `adopt`."""

    sha256: Required[str]
    paused: bool
    stopped: bool
    also: Also


def adopt(given: Iterable[Mapping[str, Any]], into: Into, **source: Unpack[Source]) -> Imported:
    """Put these records into a workspace without a history, in one transaction; the same source again does nothing.

    Jobs, attempts and history keep their ids, places and times. What ran there stays RUNNING under its dead owner, so
    that recovery settles it by what is published.
    Args: given: mappings with the fields of `perenne.workspace.export.v1`, `record` saying which; all but header and
    footer, in the order of that contract. sha256: of what they were read from, lower case. paused, stopped: the whole
    workspace. also: called with a function that carries out a statement on the application's own tables, in the same
    transaction; may be called again.
    Raises: StoreExists: this workspace has a history. InvalidInput: names the record, and what is wrong with it.
    StatementRefused, StoreBusy, StoreFailed, DiskLow. Nothing was adopted then.
    Guarantees: killed at any point, all of it is there or nothing.
    """
    read = read_all(given)
    lines = [_header(into, read, source), *read, records.Footer(source["sha256"], _counts(read))]
    _, driver, _, _ = into
    try:
        adopted = driver.write(partial(_adopt, lines=lines, into=into, also=source.get("also")), recheck=stands)
    except StoreExists:
        before = Imported(None, source["sha256"], reused=True)
        if driver.read(partial(stands, imported=before)):
            return before
        raise
    crash_point("adopt.committed")
    return adopted


def _adopt(tx: Transaction, *, lines: Sequence[records.Line], into: Into, also: Also | None) -> Imported:
    workspace, _, now, actor = into
    adoption = Adoption(tx, app=workspace.app, now=now, actor=actor, settles=False)
    for line in lines:
        adoption.take(line)
    adopted = adoption.finish()
    if also is not None:
        also(partial(tx.foreign, apptables.prefix_of(workspace.app)))
    crash_point("adopt.written")
    footer = lines[-1]
    assert isinstance(footer, records.Footer)
    return Imported(adopted, footer.sha256)


def read_all(given: Iterable[Mapping[str, Any]]) -> list[records.Line]:
    """The records that these mappings say. Raises: InvalidInput: names the first that is none."""
    return [_record(number, one) for number, one in enumerate(given)]


def _record(number: int, given: Mapping[str, Any]) -> records.Line:
    try:
        return records.of_mapping(given)
    except InvalidInput as error:
        about = next((f" of {given[name]}" for name in ("job", "id", "name") if is_visible(given.get(name))), "")
        raise InvalidInput(
            f"record {number}, a {given.get('record')}{about}: {error}; nothing was adopted", finding=str(error)
        ) from None


def _header(into: Into, read: Sequence[records.Line], source: Source) -> records.Header:
    """It names this workspace, whose own the jobs of the source are."""
    workspace, _, now, _ = into
    return records.Header(
        workspace=workspace.id,
        name=workspace.name,
        app=workspace.app,
        epoch=_EPOCH,
        schema=1,
        paused=source.get("paused", False),
        stopped=source.get("stopped", False),
        exported_at=now,
        counts=_counts(read),
    )


def _counts(read: Iterable[records.Line]) -> records.Counts:
    return records.Counts(**Counter(type(record).__name__.lower() for record in read))
