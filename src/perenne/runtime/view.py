"""What people look at in an open workspace, beside single jobs: all of it on one page, one job whole, its log.

Reads only. What does not live here: words and tables (`surfaces`), and the file that keeps the page (`snapshot`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from perenne.core.artefact import Artefact
from perenne.core.job import Attempt, HistoryLine, Job
from perenne.files import kernel_locks
from perenne.files.workspace import Workspace
from perenne.runtime import resource_page
from perenne.runtime.resource_page import ResourcePage
from perenne.runtime.snapshot import Snapshot, compose
from perenne.store import graph as graphs
from perenne.store import overview
from perenne.store.artefacts import Artefacts
from perenne.store.driver import Driver
from perenne.store.overview import Wanted, WorkerLine
from perenne.store.reader import Reader

MOST_HISTORY = 1_000
_LINE_BYTES = 1 << 21  # longer than any line that is written


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """One job whole. number: attempts begun; spent: those that count against `max_attempts`.
    parent: the job whose attempt submitted it.

    input, result: as JSON. Instants are UTC microseconds. truncated: lines of history were left out, the newest.
    """

    contract: Literal["perenne.job.v1"]
    id: str
    kind: str
    version: int
    queue: str
    state: str
    reason: str
    priority: int
    key: str | None
    unique_key: str | None
    parent: str | None
    number: int
    spent: int
    max_attempts: int
    failures: int
    interruptions: int
    cancel_asked: bool
    pause_asked: bool
    waits_for: int
    active_ms: int
    active_limit_ms: int | None
    progress_done: int
    progress_total: int | None
    progress_message: str | None
    diagnostic: str | None
    requested_at: int
    submitted_at: int
    due_at: int
    updated_at: int
    finished_at: int | None
    revision: int
    publications: dict[str, str]
    input: Any
    result: Any
    attempts: list[Attempt]
    artefacts: list[Artefact]
    history: list[HistoryLine]
    truncated: bool


class View:
    """The windows' view of one workspace."""

    def __init__(self, workspace: Workspace, driver: Driver) -> None:
        self._workspace, self._driver, self._reader = workspace, driver, Reader(driver)

    def snapshot(
        self,
        *,
        unfinished: int = overview.UNFINISHED,
        finished: int = overview.FINISHED,
        states: Collection[str] = (),
    ) -> Snapshot:
        """Everything on one page: at most so many unfinished jobs, then so many that ended, newest first; or, with
        states, the newest that stand so."""
        view = overview.look(self._driver, Wanted(unfinished, finished, frozenset(states)))
        return compose(self._workspace, view)

    def find(self, prefix: str) -> str:
        """The id of the one job whose id begins so.

        Raises: JobNotFound, InvalidInput: several begin so.
        """
        return overview.find(self._driver, prefix)

    def page(self, job_id: str) -> JobPage:
        """One job with its attempts and its history.

        Raises: JobNotFound.
        """
        job = self._reader.job(job_id)
        history = self._reader.history(job_id=job_id, limit=MOST_HISTORY + 1)
        shared = set(JobPage.__struct_fields__) & set(Job.__struct_fields__)
        own: dict[str, Any] = {name: getattr(job, name) for name in shared}
        own |= {
            "publications": msgspec.Raw(job.publications.encode()),
            "input": msgspec.Raw(job.input),
            "result": None if job.result is None else msgspec.Raw(job.result),
        }
        return JobPage(
            contract="perenne.job.v1",
            **own,
            waits_for=job.unmet,
            attempts=self._reader.attempts(job_id),
            artefacts=Artefacts(self._driver).of(job_id),
            history=history[:MOST_HISTORY],
            truncated=len(history) > MOST_HISTORY,
        )

    def resources(self) -> ResourcePage:
        """What the governor knows: the machine, who holds what, who waits for what."""
        return resource_page.look(self._workspace, self._driver)

    def graph(self, job_id: str | None = None, *, limit: int = graphs.NODES) -> graphs.Graph:
        """Who waits for whom around one job, or in the whole workspace; at most `limit` jobs.

        Raises: JobNotFound.
        """
        return graphs.graph(self._driver, job_id, limit)

    def timeline(self, job_id: str | None = None, *, limit: int = graphs.NODES) -> graphs.Timeline:
        """When the attempts of the same jobs ran.

        Raises: JobNotFound.
        """
        return graphs.timeline(self._driver, job_id, limit)

    def lives(self, worker: WorkerLine) -> bool | None:
        """Whether the worker holds its lock; None where the system does not show locks."""
        if not kernel_locks.are_listed():
            return None
        return bool(kernel_locks.holders(self._workspace.lock_of(worker.id)))

    def log(self, name: str, *, after_bytes: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """The whole lines of a log from a place on, each with the place after it.

        Args: name: id of a job, or `engine` for the engine's own. A line that is not what we write is passed over.
        """
        return _lines(self._workspace.log_of(name), after_bytes)


def _lines(path: Path, place: int) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        file.seek(place)
        while (line := file.readline(_LINE_BYTES)).endswith(b"\n"):
            place += len(line)
            try:
                said = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # a torn line of a power cut
            if isinstance(said, dict):
                yield place, said
