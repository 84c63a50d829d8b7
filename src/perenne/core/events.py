"""What can happen to a job, as values. `decide` turns one of them into a change.

Verbs that people and the engine say are one value each; everything known at the end of an attempt is `Ended`, and at
the recovery of a dead owner's attempt `Interrupted`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState


class Event(msgspec.Struct, frozen=True):
    """The root of all events."""


class Submit(Event, frozen=True):
    unmet: int = 0


class Release(Event, frozen=True):
    reason: str


class FailDependency(Event, frozen=True):
    """A dependency ended badly and the job's policy is `fail`."""

    dependency: str


class Block(Event, frozen=True):
    reason: str
    diagnostic: str | None = None


class Reject(Event, frozen=True):
    sentence: str


class LackBudget(Event, frozen=True):
    sentence: str


class Claim(Event, frozen=True):
    pass


class Cancel(Event, frozen=True):
    reason: str = "cancel_requested"


class Pause(Event, frozen=True):
    reason: str = "pause_requested"


class Resume(Event, frozen=True):
    reason: str = "resumed"


class Resolve(Event, frozen=True):
    """A person's word on a job in doubt: COMPLETED, QUEUED or FAILED, with a written reason."""

    to: JobState
    reason: str
    from_start: bool = False  # QUEUED: not from its checkpoint, which is forgotten


class Requeue(Event, frozen=True):
    reason: str
    unmet: int = 0
    from_start: bool = False


class Answer(msgspec.Struct, frozen=True):
    """The root of what an attempt ended with."""


class Returned(Answer, frozen=True):
    """The handler returned; `result` is JSON, or None."""

    result: bytes | None = None


class ReturnedAlso(Returned, frozen=True, kw_only=True):
    """The handler returned, and `also` shall be called in the transaction that completes the job."""

    also: Callable[[Any], object]


class Raised(Answer, frozen=True):
    """The handler failed."""

    diagnostic: str
    retryable: bool
    backoff: Backoff


class Snoozed(Answer, frozen=True):
    seconds: float
    reason: str = "snoozed"


class GaveUp(Answer, frozen=True):
    reason: str


class Doubted(Answer, frozen=True):
    """Only a person can tell: the handler said so, or the last checkpoint cannot be used."""

    finding: str
    reason: str = "publication_in_doubt"


class Stopped(Answer, frozen=True):
    """The frame was unwound at a boundary, or its tool was stopped, for one of: cancel limit quota suspend pause."""

    why: str


class Broke(Answer, frozen=True):
    """The frame was unwound at a sequence break: the attempt goes on once it is granted what it needs."""


class Missing(Answer, frozen=True):
    """The work was not begun: what it needs is not here. reason: the word that the job keeps."""

    sentence: str
    reason: str = "tool_missing"


class NotCalled(Answer, frozen=True):
    """The handler was not called: its final publication was looked up first and is not absent."""


class Used(msgspec.Struct, frozen=True):
    """What one sequence really took; a peak that nobody measured is None."""

    items: int
    duration_ms: int
    peak_bytes: int | None = None

    def item_bytes(self, fixed_bytes: int) -> int | None:
        """What each item took beside what is needed once; None when it is not known."""
        if self.peak_bytes is None or self.items < 1:
            return None
        return max(-(-(self.peak_bytes - fixed_bytes) // self.items), 0)


class Ended(Event, frozen=True, kw_only=True):
    """All that is known when the holder ends its attempt."""

    answer: Answer
    published: Published
    active_ms: int = 0
    limit_used: bool = False
    overrun: str | None = None
    saved: bool = False  # the ledger has a checkpoint of the job
    used: Used | None = None


class Interrupted(Event, frozen=True):
    """The owner is proved dead; the lookup was done by the one that proved it."""

    published: Published
