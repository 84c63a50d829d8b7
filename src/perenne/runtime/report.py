"""What a worker did, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perenne.core.job import Job
from perenne.core.states import JobState


@dataclass
class Report:
    """Counted from its start to its end.

    recovered: jobs that dead workers left running; settled: the state in which each was left. on_begin: is called once
    the worker is entered and can be told to end; on_settled: is told of what was settled while the worker works on.
    Neither must raise.
    """

    recovered: int = 0
    ended: int = 0
    drained: bool = False
    settled: Counter[JobState] = field(default_factory=Counter)
    on_begin: Callable[[], object] = field(default=lambda: None, repr=False, compare=False)
    on_settled: Callable[[Counter[JobState]], object] | None = field(default=None, repr=False, compare=False)

    def settle(self, jobs: Sequence[Job]) -> None:
        """Count jobs of a dead worker that were settled."""
        if not jobs:
            return
        found = Counter(job.state for job in jobs)
        self.recovered += len(jobs)
        self.settled += found
        if self.on_settled is not None:
            self.on_settled(found)
