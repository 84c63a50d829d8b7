"""`adopt`: an investigation of the reference program goes on here."""

from __future__ import annotations

import os
from pathlib import Path

import click

from perenne import crashpoints
from perenne.apps.evidence import manifest
from perenne.apps.evidence.commands import adoption, opening
from perenne.apps.evidence.commands.exporting import Exporter
from perenne.apps.evidence.commands.screen import screen


@click.command(short_help="Take over the jobs of the reference program.")
@opening.in_workspace
@click.option("--cancel", metavar="JOB", help="Give up this job, where two analyse the same evidence in the same way.")
def adopt(workspace: Path, cancel: str | None) -> None:
    """Take over an investigation of the reference program, with every job, attempt, plan and its history.

    All or nothing, and twice is once. Its job store, of version 1 to 3, is brought to version 3 and never changed
    again; what it left running is settled by what it has published.

    Example: perenne evidence adopt --workspace ~/case-7
    """
    crashpoints.arm(os.environ, specimen=manifest.read(workspace).specimen)
    done = adoption.adopt(workspace, cancel=cancel)
    with opening.opened(workspace, "write") as engine:
        Exporter(engine)()
        counts = engine.counts()
    jobs, plans = screen().count(done.jobs, "job"), screen().count(done.plans, "plan")
    click.echo(f"{jobs} and {plans} {'were adopted before' if done.reused else 'adopted'}: {screen().states(counts)}")
