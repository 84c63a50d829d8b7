"""`jobs-snapshot.json`, contract `labfy.local_jobs.snapshot.v1`, from plain values (L:E-1 to E-6, EV-11).

The engine's own, richer snapshot lies beside it and is not made here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from perenne.apps.evidence import catalogue, manifest, places
from perenne.apps.evidence.identities import check_uuid
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput
from perenne.files import atomic

CONTRACT = "labfy.local_jobs.snapshot.v1"
DIAGNOSTIC_LIMIT_BYTES = 2048

STATES = ("QUEUED", "RUNNING", "RETRY_WAIT", "COMPLETED", "FAILED", "CANCELLED", "RECOVERY_REQUIRED", "BLOCKED")
RESULT_STATUSES = ("published", "failed", "cancelled", "limit_reached", "blocked")

# State of the engine: state and result status of the contract, which has no word for it.
_SPOKEN = {
    "PAUSED": ("BLOCKED", "blocked"),
    "PAUSED_QUOTA": ("BLOCKED", "limit_reached"),
    "DEAD": ("FAILED", "failed"),
}


class JobLine(msgspec.Struct, frozen=True):
    """One job as the engine knows it; `state` is the engine's word, `requested_at` only orders the jobs."""

    job_id: str
    request_id: str
    source_evidence_id: str
    derivative_evidence_id: str
    capability_id: str
    state: str
    result_status: str | None
    diagnostic: str | None
    attempt_count: int
    cancel_requested: bool
    revision: int
    requested_at: str


Plans = Callable[[Mapping[str, str]], list[dict[str, Any]]]  # from the state of each job


def _no_plans(states: Mapping[str, str]) -> list[dict[str, Any]]:
    return []


def snapshot(investigation_id: str, lines: Iterable[JobLine], plans: Plans = _no_plans) -> bytes:
    """The file's bytes: UTF-8 JSON, jobs ordered by `requested_at` and `job_id`, then plans, a line feed at the end.

    Raises:
        InvalidInput: a state or result status has no word in the contract, or a count is negative.
    """
    check_uuid("investigation_id", investigation_id)
    ordered = sorted(lines, key=lambda line: (line.requested_at, line.job_id))
    jobs = [_job(line) for line in ordered]
    document = {
        "contract": CONTRACT,
        "investigation_id": investigation_id,
        "jobs": jobs,
        "plans": plans({job["job_id"]: job["state"] for job in jobs}),
    }
    return msgspec.json.encode(document) + b"\n"


def write_snapshot(root: Path, lines: Iterable[JobLine], plans: Plans = _no_plans) -> None:
    """Replace `jobs-snapshot.json` in `root`, 0600; exports of one investigation follow one another.

    Raises:
        InvalidInput: as `snapshot`.
        DiskLow, StorageError: not written; the last file stands.
    Guarantees: `lines` is walked while no other export can write. A reader sees the old file or the new one. A stage
        file that a killed export left is removed.
    """
    # Only under a lock is a stage file of another export surely that of a dead one; and only what is read under it is
    # surely newer than what the last export read.
    with catalogue.locked(root):
        content = snapshot(manifest.read(root).id, lines, plans)
        for left in atomic.listed(root, f"{places.JOBS_SNAPSHOT}.stage-*"):
            with contextlib.suppress(OSError):  # it is for a later export then
                left.unlink(missing_ok=True)
                crash_point("export.leftover_removed")
        atomic.write(root / places.JOBS_SNAPSHOT, content, protocol="export")


def _job(line: JobLine) -> dict[str, Any]:
    state, result_status, diagnostic = _words(line)
    return {
        "job_id": line.job_id,
        "request_id": line.request_id,
        "source_evidence_id": line.source_evidence_id,
        "derivative_evidence_id": line.derivative_evidence_id,
        "capability_id": line.capability_id,
        "state": state,
        "result_status": result_status,
        "diagnostic": _cut(diagnostic),
        "attempt_count": _count(line, "attempt_count"),
        "cancel_requested": line.cancel_requested,
        "revision": _count(line, "revision"),
    }


def _words(line: JobLine) -> tuple[str, str, str]:
    if line.result_status is not None and line.result_status not in RESULT_STATUSES:
        raise InvalidInput(
            f"result_status: {line.result_status!r} of job {line.job_id} is none of {', '.join(RESULT_STATUSES)}",
            field="result_status",
            value=line.result_status,
        )
    if line.state in STATES:
        return line.state, line.result_status or "", line.diagnostic or ""
    if line.state not in _SPOKEN:
        raise InvalidInput(
            f"state: {line.state!r} of job {line.job_id} has no word in {CONTRACT}", field="state", value=line.state
        )
    state, result_status = _SPOKEN[line.state]
    return state, result_status, f"{line.state}: {line.diagnostic}" if line.diagnostic else line.state


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:DIAGNOSTIC_LIMIT_BYTES].decode("utf-8", "ignore")


def _count(line: JobLine, field: str) -> int:
    value: int = getattr(line, field)
    if value < 0:
        raise InvalidInput(f"{field}: {value} of job {line.job_id} is negative", field=field, value=value)
    return value
