"""The rows of the model: a job, its attempts, a queue. Instants are UTC microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

SECOND = 1_000_000
PRIORITY_US = 60 * SECOND
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "DEAD")
WAITING = ("QUEUED", "RETRY_WAIT")


class Refused(Exception):
    """The call changes nothing; `names` are the errors it may raise."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.names = names


@dataclass
class Attempt:
    """One run of a job."""

    id: str
    number: int
    epoch: int
    owner: str
    outcome: str | None = None
    spent: int = 1
    active_ms: int = 0


@dataclass
class Job:
    """One durable request, what became of it, and what it waits for."""

    id: str
    kind: str
    queue: str
    input: bytes
    key: str | None
    unique_key: str | None
    priority: int
    rank: int
    submitted_at: int
    due_at: int
    on_dependency: str
    max_attempts: int
    needs: tuple[str, ...]
    max_interruptions: int | None = None
    parent: str | None = None
    state: str = ""
    waived: set[str] = field(default_factory=set)
    waits_for: str = ""  # while it is BLOCKED: dependencies, a tool, or more time
    spent: int = 0
    number: int = 0
    failures: int = 0
    interruptions: int = 0
    attempt: str | None = None
    cancel_asked: bool = False
    pause_asked: bool = False
    active_ms: int = 0
    progress: tuple[int, int | None, str | None] = (0, None, None)
    result: bytes | None = None
    finished_at: int | None = None
    moved_at: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    history: list[tuple[str, str | None, str, int | None]] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def dies_of_one_more(self) -> bool:
        """Whether nothing is left for it if its attempt, now or next, is interrupted."""
        if self.max_interruptions is not None:
            return self.interruptions + 1 >= self.max_interruptions
        return self.spent + (self.state != "RUNNING") >= self.max_attempts

    @property
    def runs_alone(self) -> bool:
        """It has been interrupted, and nobody else shall be to blame for the last time."""
        return self.interruptions > 0 and self.dies_of_one_more

    def give_one_more(self) -> None:
        """Whoever is let go on has at least one attempt left."""
        self.spent = min(self.spent, self.max_attempts - 1)


@dataclass
class Queue:
    """A lane."""

    capacity: int
    paused: bool = False
    stopped: bool = False
