"""The values that speak of one job: the row, the attempt, the token, the way an attempt ended.

Instants are UTC microseconds since 1970, durations carry their unit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from perenne.core.states import FINAL, JobState


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    SNOOZED = "snoozed"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    QUOTA = "quota"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    DOUBTED = "doubted"


class Durability(StrEnum):
    """What a receipt promises of a job: all see it, and it survives kill -9; a durable one survives a power cut too.

    A relaxed one may be lost at a power cut until the next durable commit to the same ledger.
    """

    DURABLE = "durable"
    RELAXED = "relaxed"


class OnDependency(StrEnum):
    """What a job does when a dependency ends badly: wait for a person, fail, or go on with what came of it."""

    BLOCK = "block"
    FAIL = "fail"
    CONTINUE = "continue"


class Token(msgspec.Struct, frozen=True):
    """The right to write of one attempt; all three stand in each write.

    `attempt` is a random 128-bit id, `number` grows with each claim of the job, `epoch` is the store's.
    """

    job_id: str
    attempt: str
    number: int
    epoch: int


class Job(msgspec.Struct, frozen=True):
    """One durable request, as the ledger knows it. The order of fields is the order of the table's columns."""

    seq: int
    id: str
    kind: str
    version: int
    queue: str
    state: JobState
    reason: str
    priority: int
    rank: int
    submitted_at: int
    due_at: int  # 0: due; else it waits until then
    key: str | None
    unique_key: str | None
    input: bytes
    publications: str  # JSON object: name -> UUID
    requested_at: int
    unmet: int  # dependencies that are neither COMPLETED nor waived
    max_attempts: int
    spent: int
    number: int
    failures: int
    interruptions: int
    attempt: str | None
    cancel_asked: bool
    pause_asked: bool
    active_ms: int
    active_limit_ms: int | None
    progress_done: int
    progress_total: int | None
    progress_message: str | None
    result: bytes | None
    diagnostic: str | None
    updated_at: int
    finished_at: int | None
    revision: int
    max_interruptions: int | None = None  # None: interruptions spend attempts
    parent: str | None = None  # the job whose attempt submitted it
    estimate: str | None = None  # as `Estimate.encode` gives it; None: it needs no reservation
    on_dependency: OnDependency = OnDependency.BLOCK

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    def due_at_by(self, now: int) -> int:
        """When it is due by a clock that shows `now`.

        A wait for another attempt that began in a time to come is over: the clock was set back, and a wait of seconds
        must not last until it has caught up. A time wished for at submit stays; the first claim clears it.
        """
        return 0 if self.number and self.updated_at > now else self.due_at

    @property
    def attempts_left(self) -> int:
        return self.max_attempts - self.spent

    @property
    def outlives_interruption(self) -> bool:
        """Whether it may run again when its attempt, the one that runs or else the next, is interrupted."""
        if self.max_interruptions is not None:
            return self.interruptions + 1 < self.max_interruptions
        return self.attempts_left > (0 if self.state is JobState.RUNNING else 1)

    @property
    def runs_alone(self) -> bool:
        """Whether that attempt needs a process of its own: one more interruption ends the job, and must be its own."""
        return self.interruptions > 0 and not self.outlives_interruption


class Need(msgspec.Struct, frozen=True):
    """A job that another one waited for, and what came of it.

    waived: the other goes on without its completion, since it ended badly or a person released the other. encoded: the
    result as JSON, None unless it is COMPLETED.
    """

    seq: int
    job_id: str
    kind: str
    version: int
    state: JobState
    waived: bool
    encoded: bytes | None
    diagnostic: str | None

    @property
    def result(self) -> Any:
        """The result as a value, None when there is none."""
        return None if self.encoded is None else msgspec.json.decode(self.encoded)


class Attempt(msgspec.Struct, frozen=True):
    """One run of a job; its order of fields is the order of the table's columns."""

    id: str
    job_id: str
    number: int
    epoch: int
    owner: str
    claimed_at: int
    ended_at: int | None
    outcome: Outcome | None
    reason: str | None
    spent: bool
    active_ms: int
    diagnostic: str | None


class HistoryLine(msgspec.Struct, frozen=True):
    """One change, as it stands in the history for ever."""

    seq: int
    job_id: str | None
    subject: str
    verb: str
    from_state: str | None
    to_state: str | None
    reason: str
    actor: str
    at: int
    number: int | None


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the ledger takes it: checked, encoded, with every id it will ever need."""

    id: str
    kind: str
    version: int
    input: bytes
    queue: str = "default"
    key: str | None = None
    unique_key: str | None = None
    priority: int = 0
    due_at: int = 0
    dependencies: tuple[str, ...] = ()
    on_dependency: OnDependency = OnDependency.BLOCK
    max_attempts: int = 3
    publications: str = "{}"
    requested_at: int = 0
    active_limit_ms: int | None = None
    durability: Durability = Durability.DURABLE
    max_interruptions: int | None = None
    parent: str | None = None
    estimate: str | None = None


class Receipt(msgspec.Struct, frozen=True):
    """What `submit` answers: the job, its state, whether it was there already, and what is on disk for certain."""

    job_id: str
    state: JobState
    reused: bool
    durability: Durability = Durability.DURABLE


class Queue(msgspec.Struct, frozen=True):
    """A lane with its bound, its exact number of unfinished jobs, and its controls."""

    name: str
    capacity: int
    unfinished: int
    paused: bool
    stopped: bool
