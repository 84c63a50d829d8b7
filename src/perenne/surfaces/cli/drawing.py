"""`graph` and `timeline`: who waits for whom, and who ran when, as text, JSON or a drawing. Reads only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perenne.surfaces import views
from perenne.surfaces.cli import options

if TYPE_CHECKING:
    from perenne import Engine

LIMIT = click.option(
    "--limit", "-n", type=click.IntRange(1, 2000), default=200, show_default=True, help="Most jobs to show."
)
AS_SVG = click.option("--svg", "as_svg", is_flag=True, help="Print a drawing instead, to be sent to a file.")


@click.command(short_help="Show who waits for whom.")
@click.argument("job", required=False, type=options.Job())
@LIMIT
@AS_SVG
@options.workspace
@options.as_json
def graph(job: str | None, limit: int, as_svg: bool, root: Path, as_json: bool) -> None:
    """Show all jobs that hang together with JOB: what it waits for, what waits for it, its parent and its children.

    Without a JOB, those that are not finished, then those that ended last.

    Example: perenne graph 01990c5e --svg > graph.svg
    """
    from perenne.surfaces import graphs, pictures

    with options.opened(root, "read") as engine:
        found = engine.view.graph(_found(engine, job), limit=limit)
        title = f"{views.one_line(engine.workspace.name)}: {views.count(len(found.nodes), 'job')}"
    _say(found, as_json, as_svg, lambda: pictures.graph(found, title), lambda width: graphs.graph_lines(found, width))


@click.command(short_help="Show who ran when.")
@click.argument("job", required=False, type=options.Job())
@LIMIT
@AS_SVG
@options.workspace
@options.as_json
def timeline(job: str | None, limit: int, as_svg: bool, root: Path, as_json: bool) -> None:
    """Show when the attempts of JOB ran, and of all jobs that hang together with it.

    In the text a job waits where there are `-`, and runs where there are `#`; `>` runs still.

    Example: perenne timeline 01990c5e --svg > timeline.svg
    """
    from perenne.surfaces import graphs, pictures

    with options.opened(root, "read") as engine:
        found = engine.view.timeline(_found(engine, job), limit=limit)
        title = f"{views.one_line(engine.workspace.name)}: {views.count(len(found.attempts), 'attempt')}"
    _say(
        found,
        as_json,
        as_svg,
        lambda: pictures.timeline(found, title),
        lambda width: graphs.timeline_lines(found, width),
    )


def _found(engine: Engine, prefix: str | None) -> str | None:
    return None if prefix is None else engine.view.find(prefix)


def _say(
    found: Any, as_json: bool, as_svg: bool, drawn: Callable[[], str], written: Callable[[int], list[str]]
) -> None:
    if as_json and as_svg:
        raise click.UsageError("give --json or --svg", click.get_current_context())
    if as_json:
        options.echo_json(found)
    else:
        click.echo(drawn().rstrip("\n") if as_svg else "\n".join(written(options.width())))


COMMANDS = (graph, timeline)
