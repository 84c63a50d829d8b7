"""What many commands take: the workspace, JSON, jobs by a prefix; and how a command opens what it is about.

What does not live here: what a command does, and the settings themselves (`perenne.config`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from perenne import App, Engine
    from perenne.config import Settings

SETTINGS = "perenne.settings"  # where the context of a command keeps them
Command = Callable[..., Any]
as_json = click.option("--json", "as_json", is_flag=True, help="JSON, whose schema is in docs/schema.")
reason = click.option("--reason", required=True, help="Why; it stays in the history.")


class Folder(click.Path):
    """A path that is not empty: an empty one would mean the current folder, which a forgotten variable never means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("'' is empty; give the folder, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


class Job(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A job, by its id or by the beginning of it; a shell completes it."""

    name = "job"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail(f"{value!r} is empty; give the id of a job, or the beginning of it", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        try:
            with opened(_root(ctx, ctx.params.get("workspace")), "read") as engine:
                jobs = engine.view.snapshot(unfinished=200, finished=100).jobs
        except Exception:
            return []  # a shell asks while one types: nothing to say is better than a fault
        found = (job for job in jobs if job.id.startswith(incomplete))
        return [CompletionItem(job.id, help=f"{job.state} {job.kind}") for job in found]


def workspace(command: Command) -> Command:
    """`--workspace`, whose folder the command gets as `root`, said or found."""
    return click.option(
        "--workspace",
        "-w",
        "root",
        type=Folder(path_type=Path),
        metavar="FOLDER",
        callback=lambda ctx, param, value: None if ctx.resilient_parsing else _root(ctx, value),
        help="The workspace; else as the settings say, else the current folder, else the only one below it.",
    )(command)


def maybe_workspace(command: Command) -> Command:
    """`--workspace` as it was said, for commands that can make one."""
    kind = Folder(path_type=Path)
    return click.option("--workspace", "-w", type=kind, metavar="FOLDER", help="Else ./NAME-OF-THE-APP.")(command)


def settings(ctx: click.Context, **arguments: object) -> Settings:
    """The merged settings of this command; from here on its colours are as they say.

    Raises: InvalidInput.
    """
    from perenne import config

    said = ctx.meta[SETTINGS] = config.read(arguments, os.environ, Path.cwd())
    ctx.color = _colour(said.color)
    return said


def _colour(wish: str) -> bool | None:
    """Whether to colour; None leaves it to whether the output is a terminal."""
    if wish != "auto":
        return wish == "always"
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def _root(ctx: click.Context, given: Path | None) -> Path:
    root = settings(ctx, workspace=None if given is None else str(given)).workspace
    if root is None:
        raise no_workspace()
    return root


def no_workspace() -> Exception:
    from perenne.errors import StoreMissing

    return StoreMissing(
        f"workspace: there is none in {Path.cwd()}, nor exactly one below; give --workspace FOLDER, or make one: "
        f"perenne init module:app"
    )


def opened(root: Path, access: Any) -> Engine:
    """The engine of a workspace to look at or to steer; its application's code is not loaded."""
    import perenne
    from perenne import upkeep

    return perenne.open(root, upkeep.stand_in(root), access=access)


def app_of(ctx: click.Context, reference: str | None, said: Settings) -> App:
    """The application that was named, else the one of the settings, else the installed one of the workspace.

    Raises: InvalidInput.
    """
    from perenne import upkeep
    from perenne.errors import InvalidInput

    if said.app is not None:
        return upkeep.find_app(said.app, said.app_folder)
    found = None if said.workspace is None else upkeep.app_of(said.workspace)
    if found is not None:
        return found
    where = "" if said.workspace is None else f" {said.workspace} names none that is installed;"
    raise InvalidInput(
        f'app:{where} say which, such as `{ctx.command_path} module:app`, or put app = "module:app" under '
        f"[tool.perenne] in pyproject.toml",
        field="app",
    )


def width() -> int:
    """Columns to fill: of the terminal, or as COLUMNS says; 80 where nobody says."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def echo_json(document: object) -> None:
    """One document, indented."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def echo_line(document: object) -> None:
    """One document on one line, for many of them."""
    import msgspec

    click.echo(msgspec.json.encode(document))


def note(text: str) -> None:
    """A remark for a person who looks on; programs read the standard output."""
    if sys.stderr is not None:
        click.echo(text, err=True)
