"""The life of a job, as one table.

A job is in exactly one of eleven states. What moves it is a verb; what a verb may do is a row of `TABLE`: from where,
by which verb, to where, when, and whether the attempt that ends counts against the job's limit. Nothing else in this
project spells a move: `decide` picks a row, the ledger writes it, the check constraint of the database, the manual's
table and its diagram are drawn from here, and the tests walk it against a second list written by hand.

Three ideas carry the table:

* RUNNING is entered by `claim` alone and never survives its owner: who holds the attempt ends it, or recovery does,
  once the owner is proved dead. So every path of verbs can end.
* An attempt is counted when it is claimed, before the handler runs; the rows marked `NO` give it back. A handler that
  kills its process is therefore bounded.
* The final states can be left by a person alone (`requeue`), and COMPLETED by nobody. What is published stays.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class JobState(StrEnum):
    """Where a job stands; stored and exported as these words."""

    BLOCKED = "BLOCKED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RETRY_WAIT = "RETRY_WAIT"
    PAUSED_QUOTA = "PAUSED_QUOTA"
    RECOVERY_REQUIRED = "RECOVERY_REQUIRED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"


class Spends(StrEnum):
    """Whether the attempt that a move ends counts against the job's limit of attempts."""

    NONE = "–"  # no attempt ends here
    COUNTED = "counted now"
    YES = "yes"
    NO = "no"
    EITHER = "as decided"


class Move(NamedTuple):
    """One row of the table."""

    sources: tuple[JobState | None, ...]
    verb: str
    targets: tuple[JobState, ...]
    when: str
    spends: Spends = Spends.NONE


_S = JobState
_WAITING = (_S.QUEUED, _S.RETRY_WAIT)

FINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.DEAD})
UNFINISHED = frozenset(_S) - FINAL

TABLE: tuple[Move, ...] = (
    Move((None,), "submit", (_S.QUEUED, _S.BLOCKED), "BLOCKED while a dependency is not COMPLETED"),
    Move((_S.BLOCKED,), "release", (_S.QUEUED,), "what blocked it is gone, or a person goes on without it"),
    Move((_S.BLOCKED,), "fail", (_S.FAILED,), "a dependency ended badly and the policy is `fail`"),
    Move(_WAITING, "block", (_S.BLOCKED,), "what it needs is not here, or a dependency was requeued"),
    Move(_WAITING, "reject", (_S.FAILED,), "no machine that serves the workspace can ever run it"),
    Move(_WAITING, "quota", (_S.PAUSED_QUOTA,), "the budget cannot pay the smallest step"),
    Move(_WAITING, "claim", (_S.RUNNING,), "due; a new attempt begins", Spends.COUNTED),
    Move((_S.RUNNING,), "complete", (_S.COMPLETED,), "done, or already published coherently", Spends.EITHER),
    Move((_S.RUNNING,), "retry", (_S.RETRY_WAIT,), "retryable error, attempts left", Spends.YES),
    Move((_S.RUNNING,), "snooze", (_S.RETRY_WAIT,), "the handler asked to be called later", Spends.NO),
    Move(
        (_S.RUNNING,), "block", (_S.BLOCKED,), "something missing before the start, or its time used up", Spends.EITHER
    ),
    Move((_S.RUNNING,), "fail", (_S.FAILED,), "permanent error, or no attempt left", Spends.YES),
    Move((_S.RUNNING,), "bury", (_S.DEAD,), "budget overrun, or interrupted on its last attempt", Spends.YES),
    Move((_S.RUNNING,), "requeue_interrupted", (_S.QUEUED,), "its owner is proved dead, attempts left", Spends.EITHER),
    Move((_S.RUNNING,), "suspend", (_S.QUEUED,), "the worker shuts down at a boundary", Spends.NO),
    Move((_S.RUNNING,), "pause", (_S.PAUSED,), "at a boundary, or by recovery", Spends.EITHER),
    Move((_S.RUNNING,), "quota", (_S.PAUSED_QUOTA,), "nothing left to pay the next step", Spends.NO),
    Move((_S.RUNNING,), "doubt", (_S.RECOVERY_REQUIRED,), "what was published cannot be trusted", Spends.YES),
    Move((_S.RUNNING,), "cancel", (_S.CANCELLED,), "at a boundary, or by recovery; nothing published", Spends.YES),
    Move(
        (_S.QUEUED, _S.RETRY_WAIT, _S.BLOCKED, _S.PAUSED, _S.PAUSED_QUOTA),
        "cancel",
        (_S.CANCELLED,),
        "at once",
    ),
    Move((_S.QUEUED, _S.RETRY_WAIT, _S.BLOCKED), "pause", (_S.PAUSED,), "at once; the due time is kept"),
    Move((_S.PAUSED,), "resume", (_S.QUEUED, _S.RETRY_WAIT, _S.BLOCKED), "to where it would be had it not been paused"),
    Move((_S.PAUSED_QUOTA,), "resume", (_S.QUEUED, _S.BLOCKED), "the budget has room again, or by hand"),
    Move((_S.RECOVERY_REQUIRED,), "resolve", (_S.COMPLETED, _S.QUEUED, _S.FAILED), "a person, with a written reason"),
    Move((_S.FAILED, _S.CANCELLED, _S.DEAD), "requeue", (_S.QUEUED, _S.BLOCKED), "a person; spent attempts restart"),
)

TRANSITIONS: dict[tuple[JobState | None, str, JobState], Spends] = {
    (source, move.verb, target): move.spends for move in TABLE for source in move.sources for target in move.targets
}
