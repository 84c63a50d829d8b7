"""The questions a doctor asks of a ledger: who runs what, what waits for a person, what nobody can run. Reads only."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from perenne.core.states import FINAL, JobState
from perenne.store.driver import Driver
from perenne.store.rows import listed

WAIT_FOR_JOBS = ("waiting_for_dependencies", "dependency_requeued")


class Life(msgspec.Struct, frozen=True):
    """An attempt that runs according to its row; `proof_at` is the last moment that its owner itself wrote."""

    job_id: str
    number: int
    owner: str
    pid: int
    owner_left_at: int | None
    claimed_at: int
    proof_at: int


class Stuck(msgspec.Struct, frozen=True):
    """A job that does not go on by itself."""

    job_id: str
    kind: str
    version: int
    reason: str
    diagnostic: str | None


class Health:
    """Answers about one ledger, each on a view of its own."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def running(self, *, limit: int) -> list[Life]:
        """The attempts that are open, oldest job first."""
        found = self._driver.read(lambda tx: tx.all("running_lives", running=JobState.RUNNING, limit=limit))
        return [Life(*row) for row in found]

    def stuck(self, *, limit: int) -> list[Stuck]:
        """BLOCKED jobs that wait for something else than other jobs."""
        reasons = listed(WAIT_FOR_JOBS)
        return [Stuck(*row) for row in self._driver.read(lambda tx: tx.all("stuck_jobs", reasons=reasons, limit=limit))]

    def doubtful(self, *, limit: int) -> list[Stuck]:
        """Jobs that only a person can settle."""
        state = JobState.RECOVERY_REQUIRED
        found = self._driver.read(lambda tx: tx.all("jobs_in_doubt", state=state, limit=limit))
        return [Stuck(*row) for row in found]

    def kinds(self) -> list[tuple[str, int, int]]:
        """Every kind that has unfinished jobs: name, version, how many."""
        final = listed(sorted(FINAL))
        found = self._driver.read(lambda tx: tx.all("unfinished_kinds", final=final))
        return [(kind, version, count) for kind, version, count in found]

    def unknown(self, ids: Collection[str]) -> list[str]:
        """Those of the ids that belong to no job."""
        if not ids:
            return []
        given = listed(sorted(ids))
        return [row[0] for row in self._driver.read(lambda tx: tx.all("unknown_jobs", ids=given))]
