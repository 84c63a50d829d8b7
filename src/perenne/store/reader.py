"""The questions that windows, workers and tests ask. Reads only, each on one consistent view."""

from __future__ import annotations

import msgspec

from perenne.core.identity import is_uuid
from perenne.core.job import Attempt, HistoryLine, Job, Queue
from perenne.core.states import JobState
from perenne.store import rows
from perenne.store.driver import Driver
from perenne.store.intake import not_found


class Asked(msgspec.Struct, frozen=True):
    """What is asked of one running attempt."""

    cancel: bool
    pause: bool
    stop: bool


class Controls(msgspec.Struct, frozen=True):
    """The controls of the whole workspace."""

    paused: bool
    stopped: bool


class Reader:
    """Answers about one workspace."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def job(self, job_id: str) -> Job:
        """Raises: JobNotFound."""
        row = self._driver.read(lambda tx: tx.one("job_by_id", id=job_id)) if is_uuid(job_id) else None
        if row is None:
            raise not_found(job_id)
        return rows.job(row)

    def jobs(self, *, state: JobState | None = None, after: int = 0, limit: int = 1000) -> list[Job]:
        """Jobs in the order of submission, from the one after place `after`."""
        found = self._driver.read(lambda tx: tx.all("list_jobs", state=state, after=after, limit=limit))
        return [rows.job(row) for row in found]

    def blocked(self) -> list[str]:
        """Ids of all jobs that are BLOCKED."""
        return [row[0] for row in self._driver.read(lambda tx: tx.all("blocked_jobs"))]

    def attempts(self, job_id: str) -> list[Attempt]:
        found = self._driver.read(lambda tx: tx.all("attempts_of_job", job_id=job_id))
        return [rows.attempt(row) for row in found]

    def history(self, *, job_id: str | None = None, after: int = 0, limit: int = 1000) -> list[HistoryLine]:
        """Lines of history, oldest first; of one job, or of everything."""
        if job_id is None:
            found = self._driver.read(lambda tx: tx.all("list_history", after=after, limit=limit))
        else:
            found = self._driver.read(lambda tx: tx.all("history_of_job", job_id=job_id, after=after, limit=limit))
        return [rows.history_line(row) for row in found]

    def counts(self) -> dict[JobState, int]:
        """How many jobs stand in each state; absent states have none."""
        return {JobState(state): count for state, count in self._driver.read(lambda tx: tx.all("count_states"))}

    def queues(self) -> list[Queue]:
        return [rows.queue(row) for row in self._driver.read(lambda tx: tx.all("list_queues"))]

    def controls(self) -> Controls:
        row = self._driver.read(lambda tx: tx.one("read_store"))
        assert row is not None
        return Controls(bool(row[2]), bool(row[3]))

    def asked(self) -> dict[str, Asked]:
        """What is asked of each running attempt, by attempt id."""
        found = self._driver.read(lambda tx: (tx.one("read_store"), tx.all("asked_of_running")))
        stopped = bool(found[0] and found[0][3])
        return {id: Asked(bool(cancel), bool(pause), bool(stop) or stopped) for id, cancel, pause, stop in found[1]}

    def revision(self) -> int:
        """The number of the newest line of history."""
        row = self._driver.read(lambda tx: tx.one("last_revision"))
        return int(row[0]) if row else 0
