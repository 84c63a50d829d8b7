"""The life of a job a second time, written by hand from the specification; never derived from `core/states.py`.

A move is allowed when its line stands here. What an attempt may end as stands beside the verb that ends it.
"""

from __future__ import annotations

_WAITING = ("QUEUED", "RETRY_WAIT")

MOVES: dict[str, set[tuple[str | None, str]]] = {
    "submit": {(None, "QUEUED"), (None, "BLOCKED")},
    "release": {("BLOCKED", "QUEUED")},
    "reject": {(state, "FAILED") for state in _WAITING},
    "quota": {(state, "PAUSED_QUOTA") for state in (*_WAITING, "RUNNING")},
    "claim": {(state, "RUNNING") for state in _WAITING},
    "complete": {("RUNNING", "COMPLETED")},
    "retry": {("RUNNING", "RETRY_WAIT")},
    "snooze": {("RUNNING", "RETRY_WAIT")},
    "block": {(state, "BLOCKED") for state in (*_WAITING, "RUNNING")},
    "fail": {("BLOCKED", "FAILED"), ("RUNNING", "FAILED")},
    "bury": {("RUNNING", "DEAD")},
    "requeue_interrupted": {("RUNNING", "QUEUED")},
    "suspend": {("RUNNING", "QUEUED")},
    "doubt": {("RUNNING", "RECOVERY_REQUIRED")},
    "cancel": {(state, "CANCELLED") for state in (*_WAITING, "RUNNING", "BLOCKED", "PAUSED", "PAUSED_QUOTA")},
    "pause": {(state, "PAUSED") for state in (*_WAITING, "RUNNING", "BLOCKED")},
    "resume": {
        *(("PAUSED", state) for state in ("QUEUED", "RETRY_WAIT", "BLOCKED")),
        *(("PAUSED_QUOTA", state) for state in ("QUEUED", "BLOCKED")),
    },
    "resolve": {("RECOVERY_REQUIRED", state) for state in ("COMPLETED", "QUEUED", "FAILED")},
    "requeue": {(source, target) for source in ("FAILED", "CANCELLED", "DEAD") for target in ("QUEUED", "BLOCKED")},
    # Wishes: written down while the job runs, met later.
    "ask_cancel": {("RUNNING", "RUNNING")},
    "ask_pause": {("RUNNING", "RUNNING")},
    "ask_resume": {("RUNNING", "RUNNING")},
}

# The verb that ends an attempt: what the attempt may end as, and whether it is then spent.
ENDINGS: dict[str, set[tuple[str, int]]] = {
    "complete": {("completed", 1), ("completed", 0)},
    "retry": {("failed", 1)},
    "snooze": {("snoozed", 0)},
    "block": {("blocked", 0), ("blocked", 1)},
    "fail": {("failed", 1)},
    "bury": {("interrupted", 1), ("failed", 1)},
    "requeue_interrupted": {("interrupted", 1)},
    "suspend": {("suspended", 0)},
    "quota": {("quota", 0)},
    "doubt": {("doubted", 1)},
    "cancel": {("cancelled", 1)},
    "pause": {("paused", 0), ("interrupted", 1)},
}

FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "DEAD"})
