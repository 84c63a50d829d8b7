"""`init` and `worker`: a workspace is made, and its jobs are done until somebody says stop."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perenne.surfaces import faults, views
from perenne.surfaces.cli import options

if TYPE_CHECKING:
    from perenne import App, Engine, Job, JobState
    from perenne.config import Settings

PATIENCE_S = 5.0  # another process may be making the same workspace at this moment
_SPOKEN = {"info": (), "warning": ("COMPLETED",), "error": ("COMPLETED", "CANCELLED")}  # what is left unsaid
_allowed = click.option(
    "--allow-filesystem",
    "allowed",
    multiple=True,
    metavar="TYPE",
    help="An unsafe file system to accept when the workspace is made; for ever.",
)


@click.command(short_help="Make a workspace.")
@click.argument("app", required=False)
@options.maybe_workspace
@click.option("--name", help="What people call it; else the name of the application.")
@_allowed
@click.pass_context
def init(
    ctx: click.Context, app: str | None, workspace: Path | None, name: str | None, allowed: tuple[str, ...]
) -> None:
    """Make a workspace for APP, which is module:name or an installed application.

    Example: perenne init shop:app --workspace orders
    """
    import perenne

    said = options.settings(ctx, app=app, workspace=_text(workspace), allow_filesystems=allowed or None)
    found = options.app_of(ctx, app, said)
    root = place_of(said, found, taken=False)
    made = perenne.create(root, found, name=name or found.name, allow_filesystems=said.allow_filesystems)
    where = root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root
    click.echo(f"made {made.root}, a workspace of {found.name}")
    click.echo(f"next: perenne worker {said.app or found.name} --workspace {where}")


@click.command(short_help="Do the jobs until told to stop.")
@click.argument("app", required=False)
@options.maybe_workspace
@click.option("--slots", type=int, help="Jobs at the same time, 1 to 1024; else as the settings say, else 1.")
@click.option("--coroutines", type=int, help="Handlers to await at the same time, 1 to 10000, in no slot; else 1000.")
@_allowed
@click.option("--until-idle", is_flag=True, help="End when nothing is due, instead of waiting for more.")
@click.pass_context
def worker(
    ctx: click.Context,
    /,
    app: str | None,
    workspace: Path | None,
    allowed: tuple[str, ...],
    until_idle: bool,
    **places: int | None,
) -> int:
    """Do the jobs of APP until told to stop; settles first what a dead worker left.

    Makes the workspace when there is none, in ./NAME-OF-THE-APP unless told otherwise.

    SIGTERM or Ctrl-C lets it end at the next boundary of its jobs; nothing is lost by `kill -9` either.

    Example: perenne worker shop:app --slots 4
    """
    import perenne

    said = options.settings(ctx, app=app, workspace=_text(workspace), allow_filesystems=allowed or None, **places)
    found = options.app_of(ctx, app, said)
    root = place_of(said, found)
    made = _made(root, found, said)
    with perenne.open(root, found, access="work") as engine:
        log = _Log(engine, said.log_level)
        log.say(f"workspace {root}{', made now' if made else ''}")
        engine.on_end(log.ended)
        own = engine.worker(slots=said.slots, coroutines=said.coroutines)
        own.report.on_begin, own.report.on_settled = partial(log.begin, said, until_idle), log.settled
        report = own.run(stay=not until_idle)
        log.say(f"ended {views.count(report.ended, 'attempt')}; jobs: {views.states(engine.counts())}")
        return log.code if until_idle else faults.Exit.DONE


def place_of(said: Settings, app: App, *, taken: bool = True) -> Path:
    """Where the workspace of an application is when the command does not say.

    Args: taken: a workspace of this application that was found will do.
    Raises: InvalidInput: the name of the application cannot be that of a folder.
    """
    from perenne import upkeep
    from perenne.errors import EngineError, InvalidInput

    if said.workspace is not None:
        if not (said.sources or {}).get("workspace", "").startswith("found"):
            return said.workspace
        with contextlib.suppress(EngineError):
            if taken and upkeep.stand_in(said.workspace).name == app.name:
                return said.workspace
    if "/" in app.name or app.name.startswith("."):
        raise InvalidInput(
            f"workspace: the name of app {app.name!r} is not fit for a folder; give --workspace FOLDER",
            field="workspace",
        )
    return Path.cwd() / app.name


def _made(root: Path, app: App, said: Settings) -> bool:
    """Make the workspace when it is missing; whether this process made it."""
    import perenne
    from perenne.errors import StoreExists

    if (root / "workspace.toml").exists():
        return False
    try:
        perenne.create(root, app, name=app.name, allow_filesystems=said.allow_filesystems)
    except StoreExists:
        deadline = time.monotonic() + PATIENCE_S
        while not (root / "workspace.toml").exists():
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        return False
    return True


class _Log:
    """What a worker says while it works; nobody listening is no reason to stop working."""

    def __init__(self, engine: Engine, level: str) -> None:
        self._engine, self._unsaid = engine, _SPOKEN[level]
        self._context = click.get_current_context()  # the threads that tell of an end know of no command
        self._speaking = threading.Lock()
        self.code = faults.Exit.DONE

    def say(self, line: str) -> None:
        with self._speaking, self._context.scope(cleanup=False), contextlib.suppress(OSError, ValueError):
            click.echo(line)

    def begin(self, said: Settings, until_idle: bool) -> None:
        waiting = sum(queue.unfinished for queue in self._engine.queues())
        end = "until nothing is due" if until_idle else "until SIGTERM or Ctrl-C"
        self.say(f"worker {os.getpid()}: {views.count(said.slots, 'slot')}, {views.count(waiting, 'job')} to do, {end}")
        controls = self._engine.controls()
        if controls.paused or controls.stopped:
            word = "stopped" if controls.stopped else "paused"
            self.say(f"the workspace is {word}: nothing starts until `perenne resume --all`")

    def settled(self, found: Mapping[JobState, int]) -> None:
        """What became of the jobs that a dead worker left."""
        self.say(f"settled {views.count(sum(found.values()), 'job')} of workers that had died: {views.states(found)}")

    def ended(self, job: Job) -> None:
        """One line for each job that this worker ended."""
        if job.state in ("FAILED", "DEAD"):
            self.code = faults.Exit.FAILED
        if job.state not in self._unsaid:
            took = views.duration(job.active_ms / 1000)
            why = f"  {views.one_line(job.diagnostic)}" if job.diagnostic else ""
            self.say(f"{views.painted(f'{job.state:<9}')}  {job.id}  {views.one_line(job.kind)}  {took}{why}")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
