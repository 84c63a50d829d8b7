"""The operator's commands, for workspaces of any application: look, migrate, copy, move, clean."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perenne.surfaces import faults, views
from perenne.surfaces.cli import groups

if TYPE_CHECKING:
    from perenne import Engine, Job

AGE_MOST_DAYS = 11_574  # a milliard seconds

_FILE = click.Path(path_type=Path)
_MARKS = {"ok": "ok  ", "warn": "look", "bad": "BAD "}


class _Folder(click.Path):
    """A path that is not empty: an empty one would mean the current folder, which a forgotten variable never means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("'' is empty; give the folder, or leave the option out for the current one", param, ctx)
        return super().convert(value, param, ctx)


def _workspace(command: Callable[..., Any]) -> Callable[..., Any]:
    help = "The folder of the workspace."
    return click.option("--workspace", "root", type=_Folder(path_type=Path), default=".", show_default=True, help=help)(
        command
    )


def _show(done: int, total: int) -> None:
    if total and done != total:
        click.echo(f"\r{views.progress(done, total)}", nl=False, err=True)
    else:
        click.echo("\r", nl=False, err=True)


@click.command()
@_workspace
@click.option("--deep", is_flag=True, help="Read every page of the ledger too.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(root: Path, deep: bool, as_json: bool) -> int:
    """Look at a workspace, say what is wrong and what to do.

    Exit code 4 when a promise is not kept.

    Example: perenne doctor --workspace case
    """
    import msgspec

    from perenne import upkeep

    findings = upkeep.doctor(root, groups.app_of(root), deep=deep)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(findings), indent=2))
    else:
        for finding in findings:
            click.echo(f"{_MARKS[finding.verdict]} {finding.name:<14} {finding.sentence}")
            if finding.next_step:
                click.echo(f"{'':<20}→ {finding.next_step}")
    return faults.Exit.PERSON if any(finding.verdict == "bad" for finding in findings) else faults.Exit.DONE


@click.command()
@_workspace
@click.option("--plan", "only_plan", is_flag=True, help="Show the steps, take none.")
def migrate(root: Path, only_plan: bool) -> None:
    """Bring the ledger to this program's schema, under the worker's lock.

    Example: perenne migrate --plan --workspace case
    """
    from perenne import upkeep

    steps = upkeep.plan(root) if only_plan else upkeep.migrate(root, groups.required_app_of(root))
    for step in steps:
        click.echo(f"{step.number:04d} {step.name}: {step.summary}")
    done = "to take" if only_plan else "taken"
    click.echo(f"{views.count(len(steps), 'step')} {done}" if steps else "nothing to do")


@click.command()
@click.argument("file", type=_FILE)
@_workspace
def backup(file: Path, root: Path) -> None:
    """Copy the ledger to a new FILE, verified, while work goes on.

    Example: perenne backup monday.sqlite --workspace case
    """
    from perenne import upkeep

    copy = upkeep.backup(root, file, progress=_show)
    click.echo(f"{file}: the ledger at revision {copy.revision}, epoch {copy.epoch}, verified")


@click.command()
@click.argument("file", type=_FILE)
@_workspace
def restore(file: Path, root: Path) -> None:
    """Put a backup FILE in the ledger's place.

    The replaced ledger is kept beside it.

    Refused while anybody has the workspace open.

    Example: perenne restore monday.sqlite --workspace case
    """
    from perenne import upkeep

    copy = upkeep.restore(root, file, progress=_show)
    click.echo(f"restored: the ledger stands at revision {copy.revision}, under a new epoch")


@click.command()
@click.argument("file", type=_FILE)
@_workspace
def export(file: Path, root: Path) -> None:
    """Write the ledger to a new FILE that checks itself.

    JSON lines: jobs, attempts, history, controls.

    The files and the catalogue of an application are not in it.

    Example: perenne export case.jsonl --workspace case
    """
    from perenne import upkeep

    written = upkeep.export(root, file, progress=_show)
    click.echo(f"{file}: {views.size(written.size_bytes)}, SHA-256 {written.sha256}")


@click.command(name="import")
@click.argument("file", type=_FILE)
@_workspace
def import_(file: Path, root: Path) -> None:
    """Take the exported FILE into the ledger of this new workspace, all or nothing.

    Example: perenne import case.jsonl --workspace copy-of-case
    """
    from perenne import upkeep

    imported = upkeep.import_(root, file)
    click.echo("imported before; nothing changed" if imported.reused else f"imported, SHA-256 {imported.sha256}")


@click.command()
@_workspace
@click.option("--older-than-days", type=float, help="Only jobs that ended longer ago.")
@click.option("--keep", type=int, help="Keep the newest so many.")
@click.option("--state", "states", multiple=True, help="Only jobs that ended so; may be given again.")
@click.option("--keep-history", is_flag=True, help="Keep the lines of history of the jobs that go.")
def purge(
    root: Path, older_than_days: float | None, keep: int | None, states: tuple[str, ...], keep_history: bool
) -> None:
    """Remove finished jobs by age, count and state, in small steps.

    Example: perenne purge --older-than-days 30 --workspace case
    """
    from perenne import JobState, errors, upkeep

    try:
        chosen = {"states": tuple(JobState(state.upper()) for state in states)} if states else {}
    except ValueError as error:
        known = ", ".join(JobState)
        raise errors.InvalidInput(f"state: {error}; known are {known}", field="state") from None
    if older_than_days is None and keep is None:
        raise errors.InvalidInput("purge: no bound is given; give --older-than-days, --keep, or both", field="keep")
    rule = upkeep.Rule(
        older_than_s=_age_s(older_than_days), keep=keep, history="kept" if keep_history else "pruned", **chosen
    )
    removed = upkeep.purge(root, rule)
    click.echo(f"removed {views.count(removed.jobs, 'job')}, {views.count(removed.history, 'line')} of history")


def _age_s(days: float | None) -> float | None:
    """The age in seconds, or the error that speaks of days, as the command does."""
    from perenne import errors

    if days is not None and not 0 <= days <= AGE_MOST_DAYS:
        raise errors.InvalidInput(
            f"--older-than-days: {days:g}, the limit is 0 to {AGE_MOST_DAYS} days; give a number in it",
            field="older_than_days",
            value=days,
        )
    return None if days is None else days * 86_400


@click.command()
@click.argument("job")
@_workspace
@click.option("--reason", required=True, help="Why; it stays in the history.")
def release(job: str, root: Path, reason: str) -> None:
    """Let the BLOCKED JOB go on without what blocks it.

    Example: perenne release JOB --reason "the limit was too low" --workspace case
    """
    _settle(root, lambda engine: engine.release(job, reason))


@click.command()
@click.argument("job")
@_workspace
@click.option("--reason", required=True, help="Why; it stays in the history.")
def requeue(job: str, root: Path, reason: str) -> None:
    """Start the FAILED, CANCELLED or DEAD JOB again.

    Example: perenne requeue JOB --reason "the original is back" --workspace case
    """
    _settle(root, lambda engine: engine.requeue(job, reason))


@click.command()
@click.argument("job")
@click.argument("to", type=click.Choice(["COMPLETED", "QUEUED", "FAILED"], case_sensitive=False))
@_workspace
@click.option("--reason", required=True, help="Why; it stays in the history.")
def resolve(job: str, to: str, root: Path, reason: str) -> None:
    """Settle a JOB in doubt: COMPLETED, QUEUED (run again) or FAILED.

    Example: perenne resolve JOB queued --reason "the folder is back" --workspace case
    """
    from perenne import JobState

    _settle(root, lambda engine: engine.resolve(job, JobState(to.upper()), reason))


def _settle(root: Path, say: Callable[[Engine], Job]) -> None:
    import perenne

    with perenne.open(root, groups.required_app_of(root)) as engine:
        job = say(engine)
    click.echo(f"{job.id}  {job.state}")


COMMANDS = (doctor, migrate, backup, restore, export, import_, purge, release, requeue, resolve)
