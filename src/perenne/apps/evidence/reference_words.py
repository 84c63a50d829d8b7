"""The words, instants and texts of the reference program's rows in ours: states, outcomes, verbs."""

from __future__ import annotations

from datetime import datetime

from perenne.apps.evidence.reference_store import refuse_value

ACTIVE = ("QUEUED", "RUNNING", "RETRY_WAIT")
STATES = (*ACTIVE, "COMPLETED", "FAILED", "CANCELLED", "RECOVERY_REQUIRED", "BLOCKED")
FINAL = ("COMPLETED", "FAILED", "CANCELLED")
OUTCOMES = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "RECOVERY_REQUIRED": "doubted",
    "BLOCKED": "blocked",
}
VERBS = {
    "RUNNING": "claim",
    "COMPLETED": "complete",
    "FAILED": "fail",
    "CANCELLED": "cancel",
    "RECOVERY_REQUIRED": "doubt",
    "BLOCKED": "block",
    "QUEUED": "requeue_interrupted",
}
_DIAGNOSTIC_BYTES = 2048


def word_of(state: str | None) -> str | None:
    return state if state is None or state in STATES else "BLOCKED"


def instant(where: str, field: str, text: object) -> int:
    """UTC microseconds."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.year < 1970:
        refuse_value(where, field, text, "is no UTC instant such as 2026-09-26T21:00:00Z")
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def cut(text: object) -> str | None:
    """At most 2048 bytes, cut between characters: a migrated store has no rule that says so (T-3)."""
    if text is None:
        return None
    data = str(text).replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return data[:_DIAGNOSTIC_BYTES].decode("utf-8", "ignore")
