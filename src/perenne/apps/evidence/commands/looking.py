"""`status` and `export`: how the jobs stand, for people and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from perenne import Engine, Job
from perenne.apps.evidence.commands import exporting, opening
from perenne.apps.evidence.commands.exporting import all_jobs, evidence_of
from perenne.apps.evidence.commands.names import WORDS, FileNames
from perenne.apps.evidence.commands.screen import screen


@click.command(short_help="Show how the jobs stand; reads only.")
@opening.in_workspace
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def status(workspace: Path, as_json: bool) -> None:
    """Show how the jobs stand; reads only, whatever runs meanwhile.

    Example: perenne evidence status --workspace ~/case-7 --json
    """
    with opening.opened(workspace, "read") as engine:
        names = FileNames(workspace)
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(_document(engine, names)), indent=2))
        else:
            click.echo("\n".join(_page(engine, names)))


@click.command(short_help="Write jobs-snapshot.json, print its path.")
@opening.in_workspace
def export(workspace: Path) -> None:
    """Write jobs-snapshot.json as the jobs stand now, and print its path.

    Example: perenne evidence export --workspace ~/case-7
    """
    with opening.opened(workspace, "write") as engine:
        click.echo(exporting.export(engine))


def _page(engine: Engine, names: FileNames) -> list[str]:
    return [*_summary(engine), *job_table(list(all_jobs(engine)), names)]


def job_table(found: list[Job], names: FileNames) -> list[str]:
    """The jobs as a table of 80 columns, each finding on a line of its own below its job."""
    if not found:
        return []
    cells = [(job.id, str(job.state), str(job.number), names.of(job)) for job in found]
    head, *lines = screen().table(("job", "state", "tries", "file"), cells)
    page = ["", head]
    for job, line in zip(found, lines, strict=True):
        page += [line, *([f"    {screen().one_line(job.diagnostic)}"] if job.diagnostic else [])]
    return page


def _summary(engine: Engine) -> list[str]:
    queue, controls = engine.queues()[0], engine.controls()
    held = [word for word, holds in (("paused", controls.paused), ("stopped", controls.stopped)) if holds]
    name = screen().one_line(engine.workspace.name)
    return [
        f"{name}  {engine.workspace.id}{'  specimen' if engine.workspace.specimen else ''}",
        f"jobs: {screen().states(engine.counts())}; unfinished: {queue.unfinished} of {queue.capacity}",
        *([f"{' and '.join(held)}: nothing new is started until `perenne evidence resume`"] if held else []),
    ]


def _document(engine: Engine, names: FileNames) -> dict[str, Any]:
    queue, controls = engine.queues()[0], engine.controls()
    return {
        "investigation_id": engine.workspace.id,
        "title": engine.workspace.name,
        "specimen": engine.workspace.specimen,
        "paused": controls.paused,
        "stopped": controls.stopped,
        "unfinished": queue.unfinished,
        "queue_limit": queue.capacity,
        "counts": engine.counts(),
        "jobs": [_job(job, names) for job in all_jobs(engine)],
    }


def _job(job: Job, names: FileNames) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "capability_id": job.kind,
        "analysis": WORDS.get(job.kind, job.kind),
        "evidence_id": evidence_of(job),
        "file": names.of(job),
        "state": job.state,
        "reason": job.reason,
        "attempt_count": job.number,
        "attempts_left": job.attempts_left,
        "failures": job.failures,
        "interruptions": job.interruptions,
        "cancel_requested": job.cancel_asked,
        "pause_requested": job.pause_asked,
        "diagnostic": job.diagnostic,
        "revision": job.revision,
    }
