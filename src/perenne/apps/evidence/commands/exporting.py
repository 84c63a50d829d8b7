"""`jobs-snapshot.json` of a live workspace: from the engine's jobs to the lines of the contract (EV-11)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import msgspec

from perenne import Engine, Job, JobState
from perenne.apps.evidence import adopted, jobs_snapshot, places
from perenne.apps.evidence.commands.screen import screen
from perenne.apps.evidence.jobs_snapshot import JobLine
from perenne.errors import EngineError

QUICK_S = 0.05  # an export that takes no longer follows each end
_PAGE = 1000
_RESULTS = {
    JobState.COMPLETED: "published",
    JobState.FAILED: "failed",
    JobState.DEAD: "failed",
    JobState.CANCELLED: "cancelled",
    JobState.BLOCKED: "blocked",
    JobState.RECOVERY_REQUIRED: "blocked",
}


def export(engine: Engine) -> Path:
    """Write the snapshot as the jobs stand now; gives its path.

    Raises: DiskLow, StorageError: not written; no job is touched by that (L:E-5).
    """
    root, controls = engine.workspace.root, engine.controls()
    plans = partial(adopted.plans, root, paused=controls.paused, stopped=controls.stopped)
    jobs_snapshot.write_snapshot(root, (line_of(job) for job in all_jobs(engine)), plans)
    return root / places.JOBS_SNAPSHOT


class Exporter:
    """Exports after an end, and says once, not each time, that it cannot.

    With many jobs an export takes long: the next one waits nine times as long, so that work gets nine tenths of the
    time. Whoever has the last word calls it without a job.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._screen = screen()  # here, because the threads of the worker know of no command
        self._said: set[str] = set()
        self._not_before_s = 0.0

    def __call__(self, job: Job | None = None) -> None:
        if job is not None and time.monotonic() < self._not_before_s:
            return
        began_s = time.monotonic()
        self._write()
        ended_s = time.monotonic()
        self._not_before_s = ended_s + 9 * (ended_s - began_s) if ended_s - began_s > QUICK_S else 0.0

    def _write(self) -> None:
        try:
            export(self._engine)
        except (EngineError, OSError) as error:
            sentence = f"{places.JOBS_SNAPSHOT} was not written, the jobs are not touched by that: {error}"
            if sentence not in self._said:
                self._said.add(sentence)
                click.echo(f"perenne: {self._screen.one_line(sentence)}", err=True)


def all_jobs(engine: Engine) -> Iterator[Job]:
    """Every job in the order of submission, page by page."""
    after = 0
    while page := engine.jobs(after=after, limit=_PAGE):
        yield from page
        after = page[-1].seq


def line_of(job: Job) -> JobLine:
    """One job in the words of the contract."""
    ids = msgspec.json.decode(job.publications, type=dict[str, str])
    limit_reached = job.state is JobState.BLOCKED and job.reason == "active_time_limit"
    return JobLine(
        job_id=job.id,
        request_id=ids["extraction"],
        source_evidence_id=evidence_of(job),
        derivative_evidence_id=ids["derivative"],
        capability_id=job.kind,
        state=job.state,
        result_status="limit_reached" if limit_reached else _RESULTS.get(job.state),
        diagnostic=job.diagnostic,
        attempt_count=job.number,
        cancel_requested=job.cancel_asked,
        revision=job.revision,
        requested_at=f"{job.requested_at:020}",
    )


def evidence_of(job: Job) -> str:
    """The id of the evidence a job reads."""
    return str(msgspec.json.decode(job.input)["evidence_id"])
