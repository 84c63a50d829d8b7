"""The operator's commands, for workspaces of any application: look, migrate, copy, move, clean."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from perenne.surfaces import faults, views
from perenne.surfaces.cli import options

if TYPE_CHECKING:
    from perenne import App
    from perenne.config import Settings

T = TypeVar("T")
AGE_MOST_DAYS = 11_574  # a milliard seconds

_FILE = click.Path(path_type=Path)
_MARGIN = 20  # before a sentence: the mark and the name
_ONLY = "the ledger alone: copy the application's own files and catalogue, if it has any, by other means"
_MARKS = {"ok": "ok  ", "warn": "look", "bad": "BAD "}


@click.command(short_help="Say what is wrong and what to do.")
@options.workspace
@click.option(
    "--deep", is_flag=True, help="Read every page of the ledger too, every artefact, and every file of the application."
)
@options.as_json
@click.pass_context
def doctor(ctx: click.Context, root: Path, deep: bool, as_json: bool) -> int:
    """Look at a workspace, say what is wrong and what to do; and say where each setting comes from.

    Exit code 4 when a promise is not kept.

    Example: perenne doctor --workspace case
    """
    import msgspec

    from perenne import upkeep

    said: Settings = ctx.meta[options.SETTINGS]
    findings = msgspec.to_builtins(upkeep.doctor(root, _app(said), deep=deep)) + _settings(said)
    if as_json:
        click.echo(json.dumps(findings, indent=2))
    else:
        for finding in findings:
            _say(finding)
    return faults.Exit.PERSON if any(finding["verdict"] == "bad" for finding in findings) else faults.Exit.DONE


def _say(finding: dict[str, str | None]) -> None:
    """One finding, folded to the width of the terminal."""
    room = options.width() - _MARGIN
    mark = views.painted(_MARKS[str(finding["verdict"])])
    first, *rest = views.folded(views.one_line(str(finding["sentence"])), room)
    click.echo(f"{mark} {finding['name']:<14} {first}")
    for line in rest:
        click.echo(f"{'':<{_MARGIN}}{line}")
    if finding["next_step"]:
        step, *rest = views.folded(views.one_line(str(finding["next_step"])), room - 2)
        for mark, line in (("→", step), *((" ", line) for line in rest)):
            click.echo(f"{'':<{_MARGIN}}{mark} {line}")


def _app(said: Settings) -> App | None:
    """The application of the settings, else the installed one, when it is that of the workspace."""
    from perenne import upkeep
    from perenne.errors import EngineError

    assert said.workspace is not None
    try:
        found = None if said.app is None else upkeep.find_app(said.app, said.app_folder)
        if found is not None and found.name == upkeep.stand_in(said.workspace).name:
            return found
    except EngineError:
        pass  # the doctor has more to say than that an application does not load
    return upkeep.app_of(said.workspace)


def _settings(said: Settings) -> list[dict[str, str | None]]:
    """Where each setting comes from, and what looks like one and is none."""
    from perenne import config

    told = [f"{name} = {_shown_value(getattr(said, name))} ({source})" for name, source in (said.sources or {}).items()]
    strange = config.unknown_variables(os.environ)
    mend = "unset it, or mend its name"
    return [_setting("ok", line, None) for line in told] + [_setting("warn", line, mend) for line in strange]


def _shown_value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _setting(verdict: str, sentence: str, next_step: str | None) -> dict[str, str | None]:
    return {"name": "setting", "verdict": verdict, "sentence": sentence, "next_step": next_step}


@click.command(short_help="Bring the ledger to this version.")
@click.argument("app", required=False)
@options.workspace
@click.option("--plan", "only_plan", is_flag=True, help="Show the steps, take none.")
def migrate(root: Path, app: str | None, only_plan: bool) -> None:
    """Bring the ledger to this program's schema, and the tables of APP to its newest step, under the worker's lock.

    Without APP, which is module:name or an installed application, the tables are those of the installed one, if any.

    Example: perenne migrate shop:app --plan --workspace orders
    """
    from perenne import upkeep

    found = upkeep.find_app(app) if app else upkeep.app_of(root) or upkeep.stand_in(root)
    steps = upkeep.plan(root, found) if only_plan else upkeep.migrate(root, found)
    for step in steps:
        click.echo(f"{step.number:04d} {step.name}: {step.summary}")
    done = "to take" if only_plan else "taken"
    click.echo(f"{views.count(len(steps), 'step')} {done}" if steps else "nothing to do")


@click.command(short_help="Copy the ledger.")
@click.argument("file", type=_FILE)
@options.workspace
def backup(file: Path, root: Path) -> None:
    """Copy the ledger to a new FILE, verified, while work goes on.

    The ledger alone: the files and the catalogue of an application are not in it.

    Example: perenne backup monday.sqlite --workspace case
    """
    from perenne import upkeep

    copy = _shown(upkeep.backup, root, file)
    click.echo(f"{file}: the ledger at revision {copy.revision}, epoch {copy.epoch}, verified")
    click.echo(_ONLY)


@click.command(short_help="Put a backup in place.")
@click.argument("file", type=_FILE)
@options.workspace
def restore(file: Path, root: Path) -> None:
    """Put a backup FILE in the ledger's place.

    The replaced ledger is kept beside it.

    Refused while anybody has the workspace open.

    Example: perenne restore monday.sqlite --workspace case
    """
    from perenne import upkeep

    copy = _shown(upkeep.restore, root, file)
    click.echo(f"restored: the ledger stands at revision {copy.revision}, under a new epoch")


@click.command(short_help="Write the ledger to a file of JSON lines.")
@click.argument("file", type=_FILE)
@options.workspace
def export(file: Path, root: Path) -> None:
    """Write the ledger to a new FILE that checks itself.

    JSON lines: jobs, attempts, history, controls.

    The files and the catalogue of an application are not in it.

    Example: perenne export case.jsonl --workspace case
    """
    from perenne import upkeep

    written = _shown(upkeep.export, root, file)
    click.echo(f"{file}: {views.size(written.size_bytes)}, SHA-256 {written.sha256}")
    click.echo(_ONLY)


@click.command(name="import", short_help="Take an exported file in.")
@click.argument("file", type=_FILE)
@options.workspace
def import_(file: Path, root: Path) -> None:
    """Take the exported FILE into the ledger of this new workspace, all or nothing.

    Example: perenne import case.jsonl --workspace copy-of-case
    """
    from perenne import upkeep

    imported = upkeep.import_(root, file)
    click.echo("imported before; nothing changed" if imported.reused else f"imported, SHA-256 {imported.sha256}")


@click.command(short_help="Remove finished jobs.")
@options.workspace
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


def _shown(work: Callable[..., T], root: Path, file: Path) -> T:
    """Long work, with a bar as it goes on."""
    from perenne.surfaces.cli.bar import Bar

    bar = Bar()
    try:
        return work(root, file, progress=bar.show)
    finally:
        bar.clear()


COMMANDS = (doctor, migrate, backup, restore, export, import_, purge)
