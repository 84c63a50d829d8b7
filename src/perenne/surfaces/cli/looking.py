"""`ps`, `show`, `logs` and `wait`: how the work stands. Reads only; no code of an application is loaded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perenne.surfaces import faults
from perenne.surfaces.cli import options, pages, watching

if TYPE_CHECKING:
    from perenne import Engine, Job

REFRESH_S = 0.5
LOOK_S = 0.2  # at a log that grows: whoever writes it rings no bell


@click.command(short_help="Show all jobs and workers.")
@options.workspace
@click.option("--state", "states", multiple=True, help="Only jobs that stand so; may be given again.")
@click.option("--limit", "-n", type=click.IntRange(1, 2000), default=20, show_default=True, help="Most jobs to show.")
@click.option("--watch", is_flag=True, help="Show it again and again until Ctrl-C.")
@options.as_json
def ps(root: Path, states: tuple[str, ...], limit: int, watch: bool, as_json: bool) -> None:
    """Show the jobs: first those that run or wait, then those that ended last.

    Example: perenne ps --state failed --state dead -n 50
    """
    wanted = frozenset(map(_state, states))
    with options.opened(root, "read") as engine:
        if as_json:
            options.echo_json(engine.view.snapshot(unfinished=limit, finished=limit, states=wanted))
        elif watch:
            watching.again_and_again(lambda: pages.jobs(engine, wanted, limit, options.width()), REFRESH_S)
        else:
            click.echo("\n".join(pages.jobs(engine, wanted, limit, options.width())))


def _state(text: str) -> str:
    from perenne import JobState
    from perenne.errors import InvalidInput

    if text.upper() not in {str(state) for state in JobState}:
        raise InvalidInput(f"state: {text!r}; give one of {', '.join(JobState)}", field="state", value=text)
    return text.upper()


@click.command(short_help="Show one job whole.")
@click.argument("job", type=options.Job())
@options.workspace
@options.as_json
def show(job: str, root: Path, as_json: bool) -> None:
    """Show one JOB: how it stands, its attempts, its history, its result.

    Two numbers are told: the attempts that began, and those of them that count against its limit.

    Example: perenne show 01990c5e --json
    """
    with options.opened(root, "read") as engine:
        id = engine.view.find(job)
        if as_json:
            options.echo_json(engine.view.page(id))
        else:
            click.echo("\n".join(pages.job(engine, id, options.width())))


@click.command(short_help="Show the log of a job.")
@click.argument("job", required=False, type=options.Job())
@click.option("--engine", "of_engine", is_flag=True, help="The log of the engine itself instead of a job's.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
@options.workspace
@options.as_json
def logs(job: str | None, of_engine: bool, follow: bool, root: Path, as_json: bool) -> None:
    """Show what the attempts of JOB wrote to its log; with --json one JSON object a line, as it stands there.

    Example: perenne logs -f 01990c5e
    """
    if (job is None) != of_engine:
        raise click.UsageError("give a JOB, or --engine", click.get_current_context())
    with options.opened(root, "read") as engine, watching.until_interrupted():
        name, place, going = "engine" if job is None else engine.view.find(job), 0, True
        while going:
            going = follow and (job is None or not engine.job(name).is_final)
            for after, said in engine.view.log(name, after_bytes=place):
                place = after
                click.echo("\n".join(pages.log_lines(said, as_json)))
            if going:
                time.sleep(LOOK_S)


@click.command(short_help="Wait until a job has ended.")
@click.argument("job", type=options.Job())
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="How long to wait at most.")
@options.workspace
@options.as_json
def wait(job: str, timeout: float | None, root: Path, as_json: bool) -> int:
    """Wait until JOB has ended and print its result.

    Exit code 0 when it is done, 1 when it failed or was cancelled, 3 when the time is over or Ctrl-C ends the waiting,
    4 when it waits for a person.

    Example: perenne wait 01990c5e --timeout 60
    """
    with options.opened(root, "read") as engine:
        id = engine.view.find(job)
        try:
            ended = _ended(engine, id, timeout)
        except KeyboardInterrupt:
            options.note(f"\nperenne: the job goes on; look with `perenne show {id}`")
            return faults.Exit.REFUSED
        if as_json:
            options.echo_json(engine.view.page(ended.id))
        else:
            click.echo(pages.end(ended))
    return _code(ended)


def _ended(engine: Engine, id: str, timeout_s: float | None) -> Job:
    """The job once it has ended or waits for a person, or as it stands when the time is over."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        # Looked at each second too: a job that begins to wait for a person has not ended.
        job = engine.wait(id, timeout_s=1.0 if left_s is None else min(left_s, 1.0))
        if job.is_final or pages.needs_a_person(job) or left_s == 0.0:
            return job


def _code(job: Any) -> int:
    if job.state == "COMPLETED":
        return faults.Exit.DONE
    if job.is_final:
        return faults.Exit.FAILED
    return faults.Exit.PERSON if pages.needs_a_person(job) else faults.Exit.REFUSED


COMMANDS = (ps, show, logs, wait)
