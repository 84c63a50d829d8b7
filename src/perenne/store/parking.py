"""Classes that were refused: with which job, since when, and in which words.

The rows are for people and for ageing; nothing is decided by them but how long a job has waited. A row is written when
the job or what it waits for changes, and not when only the numbers in the sentence do.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from perenne.core.job import Job
from perenne.core.verdicts import Verdict
from perenne.store.driver import Transaction

Class = tuple[str, str, int, str]  # queue, kind, version, estimate


class Refused(msgspec.Struct, frozen=True):
    """One parked class. since: UTC microseconds."""

    queue: str
    kind: str
    version: int
    estimate: str
    job: int
    since: int
    waits_for: str
    sentence: str


def all(tx: Transaction) -> list[Refused]:
    """Every parked class."""
    return [Refused(*row) for row in tx.all("parked_classes")]


class Parked:
    """The parked classes inside one claim."""

    def __init__(self, tx: Transaction, now: int) -> None:
        self._tx, self._now = tx, now
        self._known = {(one.queue, one.kind, one.version, one.estimate): one for one in all(tx)}

    def note(self, job: Job, verdict: Verdict) -> int:
        """Park the class of this job; since when it has waited, UTC microseconds."""
        known = self._known.get(class_of(job))
        same = known is not None and known.job == job.seq and known.since <= self._now
        since = known.since if same and known is not None else self._now
        if known is None or not same or known.waits_for != verdict.waits_for:
            refused = Refused(*class_of(job), job.seq, since, verdict.waits_for, verdict.sentence)
            self._tx.run("park_class", **msgspec.structs.asdict(refused))
        return since

    def forget(self, job: Job) -> None:
        """The class of this job is refused no more."""
        self._unpark(class_of(job))

    def keep_only(self, ripe: Collection[Class]) -> None:
        """Forget classes of which no job is due any more."""
        for gone in set(self._known) - set(ripe):
            self._unpark(gone)

    def _unpark(self, name: Class) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            self._tx.run(
                "unpark_class", queue=known.queue, kind=known.kind, version=known.version, estimate=known.estimate
            )


def class_of(job: Job) -> Class:
    """What jobs have in common that one verdict is about."""
    assert job.estimate is not None
    return job.queue, job.kind, job.version, job.estimate
