"""What was adopted from the reference program's job store, read back: which file, and its plans (EV-2, L:E-3, E-6).

Reads only; it is written in `adoption`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from perenne import sqlite
from perenne.apps.evidence import places, reference_store
from perenne.errors import StoreForeign, StoreMissing

LEDGER = f"{places.RUNTIME}/ledger.sqlite"
JOURNAL = f"{LEDGER}-journal"

PLAN_COLUMNS = reference_store.COLUMNS["plans"]  # in the order of our own table, too
_NOT_EXPORTED = ("intent_hash", "state")
_PENDING = ("QUEUED", "RETRY_WAIT")


def refuse_unadopted(root: Path) -> None:
    """Raises: StoreForeign: a store of the reference program lies in `root` that was not adopted, or changed since."""
    if not os.path.lexists(root / reference_store.PATH):
        return
    store = root / reference_store.PATH
    known = digest_of(root)
    if known is None:
        raise StoreForeign(
            f"{store} is the job store of the reference program and was not adopted; nothing was touched, "
            f"take its jobs over with `perenne evidence adopt`",
            path=str(store),
        )
    if reference_store.digest(root) != known:
        raise StoreForeign(
            f"{store} changed after its jobs were adopted, so the reference program still works on this investigation; "
            f"nothing was touched, stop that program (local-jobs) and put the adopted file back (sha256 {known})",
            path=str(store),
            sha256=known,
        )


def digest_of(root: Path) -> str | None:
    """The SHA-256 of the file that was adopted; None when none was."""
    rows = _ask(root, "select sha256 from evidence_adopted")
    return str(rows[0][0]) if rows else None


def plans(root: Path, states: Mapping[str, str], *, paused: bool, stopped: bool) -> list[dict[str, Any]]:
    """The adopted plans in the words of the snapshot's contract, ordered by `created_at` and `plan_id`.

    Args: states: of each job by its id, in the contract's words. paused, stopped: the whole workspace.
    """
    found = _ask(root, "select * from evidence_plan order by created_at, plan_id")
    jobs = _ask(root, "select plan_id, job_id from evidence_plan_job")
    return [
        _plan(
            dict(zip(PLAN_COLUMNS, row, strict=True)),
            [states.get(job, "") for plan, job in jobs if plan == row[0]],
            paused,
            stopped,
        )
        for row in found
    ]


def _plan(row: dict[str, Any], states: list[str], paused: bool, stopped: bool) -> dict[str, Any]:
    left = {
        "remaining_attempts": max(row["max_attempts_total"] - row["consumed_attempts"], 0),
        "remaining_active_ms": max(row["max_active_ms"] - row["consumed_active_ms"], 0),
    }
    counts = {
        "running_jobs": states.count("RUNNING"),
        "pending_jobs": sum(state in _PENDING for state in states),
        "completed_jobs": states.count("COMPLETED"),
        "failed_jobs": sum(state in ("FAILED", "BLOCKED") for state in states),
        "cancelled_jobs": states.count("CANCELLED"),
        "recovery_jobs": states.count("RECOVERY_REQUIRED"),
    }
    kept = {name: value for name, value in row.items() if name not in _NOT_EXPORTED}
    state = next(_states(counts, len(states), 0 in left.values(), paused, stopped))
    return kept | left | counts | {"state": state}


def _states(counts: Mapping[str, int], total: int, used_up: bool, paused: bool, stopped: bool) -> Iterator[str]:
    """The state of a plan; the first one counts (L:E-6)."""
    pending, completed, cancelled = (counts[f"{word}_jobs"] for word in ("pending", "completed", "cancelled"))
    for holds, state in (
        (counts["recovery_jobs"], "RECOVERY_REQUIRED"),
        (counts["running_jobs"], "ACTIVE"),
        (paused and pending, "PAUSED"),
        (pending and used_up, "LIMIT_REACHED"),
        (completed == total, "COMPLETED_SUCCESS"),
        (counts["failed_jobs"], "PROCESSED_WITH_FAILURES"),
        ((cancelled and completed + cancelled == total) or stopped, "STOPPED"),
    ):
        if holds:
            yield state
    yield "PENDING"


def _ask(root: Path, statement: str) -> list[Any]:
    """Rows of our own tables; none where there is no ledger yet, or one from before there were such tables."""
    if os.path.lexists(root / JOURNAL):
        return []  # its making was killed; who only reads cannot take that back
    try:
        connection = sqlite.open(root / LEDGER, mode="read", busy_s=reference_store.BUSY_S)
    except (StoreMissing, StoreForeign):
        return []
    with closing(connection), sqlite.translated(root / LEDGER):
        try:
            return connection.execute(statement).fetchall()
        except apsw.SQLError:
            return []
