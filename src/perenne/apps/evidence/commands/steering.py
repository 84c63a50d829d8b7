"""`pause`, `resume`, `stop` and `cancel`: what a person says about jobs and the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from perenne import Engine, Job, JobState
from perenne.apps.evidence.commands import opening
from perenne.apps.evidence.commands.exporting import Exporter


@click.command(short_help="Pause a job, or start nothing new.")
@opening.in_workspace
@click.argument("job", required=False)
def pause(workspace: Path, job: str | None) -> None:
    """Pause one job, or start nothing new in the workspace; what runs goes on.

    Example: perenne evidence pause --workspace ~/case-7
    """
    with _steering(workspace) as engine:
        told = engine.pause(job)
    _say(told, "paused: nothing new is started", "asked to pause at its next boundary")


@click.command(short_help="Let a job, or the workspace, go on.")
@opening.in_workspace
@click.argument("job", required=False)
def resume(workspace: Path, job: str | None) -> None:
    """Let a paused job go on, or clear both pause and stop of the workspace; starts no worker.

    Example: perenne evidence resume --workspace ~/case-7
    """
    with _steering(workspace) as engine:
        told = engine.resume(job)
    _say(told, "resumed: start a worker with `perenne evidence run`", "goes on")


@click.command(short_help="Start nothing new, and let the worker end.")
@opening.in_workspace
def stop(workspace: Path) -> None:
    """Start nothing new, and let the worker end at its next boundary; what it ran goes on after `resume`.

    Example: perenne evidence stop --workspace ~/case-7
    """
    with _steering(workspace) as engine:
        engine.stop()
    _say(None, "stopped: nothing is started until `perenne evidence resume`", "")


@click.command(short_help="Cancel a job.")
@opening.in_workspace
@click.argument("job")
def cancel(workspace: Path, job: str) -> None:
    """Cancel a waiting job at once; a running one ends at its next boundary, its tool at once.

    Example: perenne evidence cancel --workspace ~/case-7 82000000-0000-4000-8000-000000000011
    """
    with _steering(workspace) as engine:
        told = engine.cancel(job)
    _say(told, "", "asked to end at its next boundary")


@contextmanager
def _steering(workspace: Path) -> Iterator[Engine]:
    with opening.opened(workspace, "write") as engine:
        yield engine
        Exporter(engine)()


def _say(told: Job | None, about_workspace: str, while_running: str) -> None:
    if told is None:
        click.echo(about_workspace)
    elif told.state is JobState.RUNNING:
        click.echo(f"{told.id}  {told.state}  {while_running}")
    else:
        click.echo(f"{told.id}  {told.state}")
