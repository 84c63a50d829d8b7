"""The job store of the reference program: refused, brought to version 3, read (L:S-3 to S-7, M-1 to M-5).

What lives here: the file, its rows as they stand. What does not: what they mean as jobs of ours (`reference_records`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import apsw
import msgspec

from perenne import sqlite
from perenne.apps.evidence import places
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, SchemaTooNew, StoreFailed, StoreForeign, StoreMissing

PATH = f"{places.RUNTIME}/jobs.sqlite"
NEWEST = 3
BUSY_S = 5.0
_HEADER_BYTES = 20
_IN_WAL_MODE = 2  # bytes 18 and 19 of the file

COLUMNS = {
    table: names.split()
    for table, names in {
        "jobs": (
            "job_id request_id source_evidence_id derivative_evidence_id capability_id adapter_id "
            "adapter_version source_sha256 source_size requested_at parameters_json state "
            "cancel_requested max_attempts attempt_count result_status diagnostic dependency_job_id "
            "revision"
        ),
        "attempts": (
            "attempt_id job_id rank owner_token started_at heartbeat_at finished_at state diagnostic "
            "reconciliation elapsed_active_ms"
        ),
        "transitions": "job_id from_state to_state reason created_at",
        "plans": (
            "plan_id idempotency_key intent_hash input_revision profile_id created_at state max_analyses "
            "max_attempts_total max_source_bytes max_active_ms reserved_analyses reserved_attempts "
            "reserved_source_bytes consumed_attempts consumed_active_ms"
        ),
        "plan_jobs": "plan_id rank job_id",
    }.items()
}
_ROWS = {
    "jobs": "select * from jobs order by rowid",
    "attempts": "select * from attempts order by rowid",
    "transitions": "select * from transitions order by rowid",
    "plans": "select * from plans order by rowid",
    "plan_jobs": "select * from plan_jobs order by rowid",
}
# Since which version there is a table, or a column; what an older store lacks is read as empty.
_SINCE = {"plans": 2, "plan_jobs": 2, "elapsed_active_ms": 3}
_NUMBER = re.compile("source_size|cancel_requested|attempt_count|revision|rank|.*_ms|(max|reserved|consumed)_.*")

_PLANS = """
    create table plans (
        plan_id text primary key,
        idempotency_key text not null unique,
        intent_hash text not null,
        input_revision text not null,
        profile_id text not null,
        created_at text not null,
        state text not null default 'APPROVED',
        max_analyses integer not null,
        max_attempts_total integer not null,
        max_source_bytes integer not null,
        max_active_ms integer not null,
        reserved_analyses integer not null,
        reserved_attempts integer not null,
        reserved_source_bytes integer not null,
        consumed_attempts integer not null default 0,
        consumed_active_ms integer not null default 0
    );
    create table plan_jobs (
        plan_id text not null references plans (plan_id),
        rank integer not null,
        job_id text not null unique references jobs (job_id),
        primary key (plan_id, rank)
    );
"""
_BUDGETS = """
    alter table attempts add column reserved_active_ms integer not null default 0 check (reserved_active_ms >= 0);
    alter table attempts add column elapsed_active_ms integer check (elapsed_active_ms >= 0);
    alter table attempts add column budget_finalized integer not null default 0 check (budget_finalized in (0, 1));
    create unique index jobs_active_analysis on jobs (source_evidence_id, capability_id)
        where state in ('QUEUED', 'RUNNING', 'RETRY_WAIT');
"""


class Content(msgspec.Struct, frozen=True):
    """What a store holds: its controls, and the rows of each table as mappings, in the order they were written."""

    version: int
    paused: bool
    stopped: bool
    jobs: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    transitions: list[dict[str, Any]]
    plans: list[dict[str, Any]]
    plan_jobs: list[dict[str, Any]]


def look(root: Path, investigation_id: str) -> Content:
    """What the store of this investigation holds, whatever its version from 1 to 3; changes nothing.

    Raises:
        StoreMissing: there is none, or no regular file. StoreForeign: of another investigation, or no such store.
        SchemaTooNew: of a version that nobody here knows. StoreFailed, StoreBusy: damaged, or in use.
    """
    with _opened(root, "write" if _has_journal(root) else "read") as connection:
        connection.execute("begin")
        version = _check(root / PATH, connection, investigation_id)
        return _content(root / PATH, connection, version)


def bring_up(root: Path, investigation_id: str, cancelled: Sequence[str] = ()) -> None:
    """Bring the store to version 3 in one transaction; the caller holds the worker's lock. At version 3 does nothing.

    Args: cancelled: jobs that a person gave up, so that one active analysis is left for each evidence and capability.
    Raises: as `look`.
    Guarantees: killed at any point, version, columns and rows are the old ones or the new ones.
    """
    with _opened(root, "write") as connection:
        connection.execute("begin immediate")
        version = _check(root / PATH, connection, investigation_id)
        if version == NEWEST and not cancelled:
            return
        for job_id in cancelled:
            _cancel(connection, job_id)
        if version < 2:
            connection.execute(_PLANS)
        if version < NEWEST:
            connection.execute(_BUDGETS)
        crash_point("adopt.altered")
        connection.execute("update metadata set value = ? where key = 'schema_version'", (str(NEWEST),))
        connection.execute("commit")
        crash_point("adopt.raised")


def digest(root: Path) -> str | None:
    """The SHA-256 of the store; None while a journal says that its program is writing, or died at it.

    Raises: StoreMissing, StoreFailed.
    """
    if _has_journal(root):
        return None
    return places.measure_below(root, PATH, hashed=True)[1]


def _has_journal(root: Path) -> bool:
    return any(os.path.lexists(root / f"{PATH}-{end}") for end in ("journal", "wal"))


@contextmanager
def _opened(root: Path, mode: sqlite.Mode) -> Iterator[apsw.Connection]:
    path = root / PATH
    _refuse_wal(root)
    connection = sqlite.open(path, mode=mode, journal="delete", synchronous="extra", busy_s=BUSY_S)
    try:
        with sqlite.translated(path):
            yield connection
    except (apsw.SQLError, UnicodeDecodeError) as error:
        raise StoreForeign(
            f"{path} is no job store of the reference program ({error}); nothing was touched, put the right file back",
            path=str(path),
        ) from error
    finally:
        connection.close()  # which rolls back what was not committed


def _refuse_wal(root: Path) -> None:
    """Opening it for writing would change its mode before anything else was asked."""
    path = root / PATH
    if not path.is_file() or path.is_symlink():
        raise StoreMissing(
            f"{path} is missing or no regular file; there is nothing to adopt, check the folder", path=str(path)
        )
    places.measure_below(root, PATH, hashed=False)  # refuses symlinks on the way
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if header[18:20] == bytes([_IN_WAL_MODE] * 2):
        _refuse(path, "is in WAL mode, which the reference program never uses")


def _check(path: Path, connection: apsw.Connection, investigation_id: str) -> int:
    """The version, once the store is known to be whole and of this investigation."""
    rows: list[Any] = connection.execute("select key, value from metadata").fetchall()
    found = dict(rows)
    version = found.get("schema_version")
    if not isinstance(version, str) or not version.isascii() or not version.isdigit() or version == "0":
        _refuse(path, f"has the schema version {version!r}")
    if len(version) > 9 or int(version) > NEWEST:
        raise SchemaTooNew(
            f"{path} has schema version {version[:9]}, this program adopts 1 to {NEWEST}; nothing was touched, go on "
            f"with the program that wrote it",
            path=str(path),
            found=version,
        )
    if found.get("investigation_id") != investigation_id:
        _refuse(path, f"belongs to investigation {found.get('investigation_id')!r}, this one is {investigation_id}")
    faults = [" ".join(row[0].split()) for row in connection.execute("pragma integrity_check(3)") if row[0] != "ok"]
    faults += [f"a row of {row[0]} names a missing one of {row[2]}" for row in connection.execute(_FOREIGN)]
    if faults:
        # A disk that cannot be read for a moment is told by this check as a fault, too.
        raise StoreFailed(
            f"{path} is damaged or cannot be read: {faults[0]}; nothing was touched, try again, and if it stays so, "
            f"restore it from a copy",
            path=str(path),
        )
    return int(version)


_FOREIGN = "pragma foreign_key_check"
_ITS_COLUMNS = "select * from pragma_table_info(?)"


def _refuse(path: Path, why: str) -> NoReturn:
    raise StoreForeign(
        f"{path} {why}; nothing was touched, put the file back that belongs here", path=str(path), finding=why
    )


def _content(path: Path, connection: apsw.Connection, version: int) -> Content:
    controls = connection.execute("select paused, stop_requested from controls").fetchall()
    if len(controls) != 1 or any(value not in (0, 1) for value in controls[0]):
        _refuse(path, f"has the controls {controls!r} instead of one row of 0 and 1")
    rows = {table: _rows(path, connection, table, version) for table in COLUMNS}
    return Content(version, bool(controls[0][0]), bool(controls[0][1]), **rows)


def _rows(path: Path, connection: apsw.Connection, table: str, version: int) -> list[dict[str, Any]]:
    if _SINCE.get(table, 1) > version:
        return []
    there = {str(row[1]) for row in connection.execute(_ITS_COLUMNS, (table,))}
    lacking = [name for name in COLUMNS[table] if name not in there and _SINCE.get(name, 1) <= version]
    if lacking:
        _refuse(path, f"has a table {table} without {lacking[0]}")
    cursor = connection.execute(_ROWS[table])
    return [_typed(table, _named(cursor, row, COLUMNS[table])) for row in cursor]


def _named(cursor: apsw.Cursor, row: Sequence[Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The columns we know, None for what an older version lacks."""
    known = dict(zip((column[0] for column in cursor.get_description()), row, strict=True))
    return {name: known.get(name) for name in wanted}


def _typed(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """SQLite keeps any value in any column; whoever reads on may count on numbers and texts."""
    for name, value in row.items():
        wanted = int if _NUMBER.fullmatch(name) else str
        if value is not None and not isinstance(value, wanted):
            refuse_value(f"{table}: {next(iter(row.values()))!r}", name, value, f"is no {wanted.__name__}")
    return row


def _cancel(connection: apsw.Connection, job_id: str) -> None:
    """As the reference cancels; its worker is dead, so a running one ends here too."""
    values = {"job": job_id, "reason": "cancel_requested"}
    connection.execute(
        """
        insert into transitions (job_id, from_state, to_state, reason, created_at)
        select job_id, state, 'CANCELLED', :reason, strftime('%Y-%m-%dT%H:%M:%SZ') from jobs where job_id = :job
        """,
        values,
    )
    connection.execute(
        """
        update attempts
        set state = 'INTERRUPTED', finished_at = strftime('%Y-%m-%dT%H:%M:%SZ'), diagnostic = :reason
        where job_id = :job and finished_at is null
        """,
        values,
    )
    connection.execute(
        """
        update jobs
        set state = 'CANCELLED', cancel_requested = 1, result_status = 'cancelled', diagnostic = :reason,
            owner_token = null, heartbeat_at = null, revision = revision + 1
        where job_id = :job
        """,
        values,
    )


def refuse_value(path: str, field: str, value: object, words: str) -> NoReturn:
    """Raises: InvalidInput: this value of a row cannot be adopted."""
    raise InvalidInput(
        f"{PATH}: {path}: {field}: {value!r} {words}; nothing was adopted, restore the file from a copy",
        field=field,
        value=value,
    )
