"""What a person says about jobs, queues and the workspace: cancel, pause, resume, stop, and the three settlings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perenne.surfaces import faults, views
from perenne.surfaces.cli import options

if TYPE_CHECKING:
    from perenne import Engine, Job

_jobs = click.argument("jobs", nargs=-1, required=True, type=options.Job(), metavar="JOB...")
_some_jobs = click.argument("jobs", nargs=-1, type=options.Job(), metavar="[JOB]...")
_queue = click.option("--queue", metavar="NAME", help="A whole queue instead of jobs.")
_all = click.option("--all", "everything", is_flag=True, help="The whole workspace instead of jobs.")
_from_start = click.option("--from-start", is_flag=True, help="Forget the last checkpoint: begin again.")


@click.command(short_help="Cancel jobs.")
@_jobs
@options.workspace
@click.option("--reason", default="cancel_requested", show_default=True, help="Why; it stays in the history.")
def cancel(jobs: Sequence[str], root: Path, reason: str) -> int:
    """Cancel waiting jobs at once; a running one ends at its next boundary, its tool at once.

    Example: perenne cancel 01990c5e --workspace orders
    """
    return _each(root, jobs, lambda engine, job: engine.cancel(job, reason), "asked to end at its next boundary")


@click.command(short_help="Pause jobs, a queue, or everything.")
@_some_jobs
@_queue
@_all
@options.workspace
def pause(jobs: Sequence[str], queue: str | None, everything: bool, root: Path) -> int:
    """Pause jobs at their next boundary; a queue or the whole workspace: what runs goes on, nothing new starts.

    Example: perenne pause --queue mails --workspace orders
    """
    if _is_of_jobs("pause", jobs, queue, everything):
        return _each(root, jobs, lambda engine, job: engine.pause(job), "asked to pause at its next boundary")
    return _whole(root, lambda engine: engine.pause(queue=queue), f"{_subject(queue)} is paused: nothing new starts")


@click.command(short_help="Let jobs, a queue, or everything go on.")
@_some_jobs
@_queue
@_all
@options.workspace
def resume(jobs: Sequence[str], queue: str | None, everything: bool, root: Path) -> int:
    """Let jobs go on, or clear both pause and stop of a queue or of the whole workspace; starts no worker.

    Example: perenne resume --all --workspace orders
    """
    if _is_of_jobs("resume", jobs, queue, everything):
        return _each(root, jobs, lambda engine, job: engine.resume(job), "goes on")
    return _whole(
        root, lambda engine: engine.resume(queue=queue), f"{_subject(queue)} is open: workers start jobs again"
    )


@click.command(short_help="Start nothing new, let workers end.")
@_queue
@options.workspace
def stop(queue: str | None, root: Path) -> int:
    """Start nothing new, and let workers end at the next boundary of their jobs; `resume` opens again.

    Example: perenne stop --workspace orders
    """
    end = f"nothing new starts until `perenne resume {'--all' if queue is None else f'--queue {queue}'}`"
    return _whole(root, lambda engine: engine.stop(queue=queue), f"{_subject(queue)} is stopped: {end}")


@click.command(short_help="Let blocked jobs go on.")
@_jobs
@options.workspace
@options.reason
def release(jobs: Sequence[str], root: Path, reason: str) -> int:
    """Let BLOCKED jobs go on without what blocks them.

    Example: perenne release 01990c5e --reason "the limit was too low" --workspace orders
    """
    return _each(root, jobs, lambda engine, job: engine.release(job, reason))


@click.command(short_help="Start ended jobs again.")
@_jobs
@options.workspace
@options.reason
@_from_start
def requeue(jobs: Sequence[str], root: Path, reason: str, from_start: bool) -> int:
    """Start FAILED, CANCELLED or DEAD jobs again, each from its last checkpoint.

    Example: perenne requeue 01990c5e --reason "the original is back" --workspace orders
    """
    return _each(root, jobs, lambda engine, job: engine.requeue(job, reason, from_start=from_start))


@click.command(short_help="Settle a job in doubt.")
@click.argument("job", type=options.Job())
@click.argument("to", type=click.Choice(["COMPLETED", "QUEUED", "FAILED"], case_sensitive=False))
@options.workspace
@options.reason
@_from_start
def resolve(job: str, to: str, root: Path, reason: str, from_start: bool) -> int:
    """Settle a job in doubt: COMPLETED, QUEUED (run again) or FAILED.

    Example: perenne resolve 01990c5e queued --reason "the folder is back" --workspace orders
    """
    from perenne import JobState

    state = JobState(to.upper())
    return _each(root, [job], lambda engine, id: engine.resolve(id, state, reason, from_start=from_start))


def _each(root: Path, jobs: Sequence[str], say: Callable[[Engine, str], Job | None], while_running: str = "") -> int:
    """Say it to each job, once all of them are found; one that refuses keeps no other from hearing it.

    Returns: the gravest exit code.
    """
    from perenne.errors import EngineError

    code = faults.Exit.DONE
    with options.opened(root, "write") as engine:
        found = list(dict.fromkeys(map(engine.view.find, jobs)))
        for id in found:
            try:
                job = say(engine, id)
            except EngineError as error:
                if len(found) == 1:
                    raise
                options.note(f"perenne: {faults.sentence_of(error)}")
                code = max(code, faults.fault_of(error).exit_code)
                continue
            assert job is not None
            wish = f"  {while_running}" if job.state == "RUNNING" and while_running else ""
            click.echo(f"{job.id}  {views.painted(job.state)}{wish}")
    return code


def _is_of_jobs(verb: str, jobs: Sequence[str], queue: str | None, everything: bool) -> bool:
    """Whether jobs are meant; exactly one of the three must be said, so that nobody pauses everything by a slip."""
    if (bool(jobs), queue is not None, everything).count(True) != 1:
        raise click.UsageError(f"{verb}: give jobs, or --queue NAME, or --all", click.get_current_context())
    return bool(jobs)


def _whole(root: Path, say: Callable[[Engine], object], told: str) -> int:
    with options.opened(root, "write") as engine:
        say(engine)
    click.echo(told)
    return faults.Exit.DONE


def _subject(queue: str | None) -> str:
    return "the workspace" if queue is None else f"queue {views.one_line(queue)}"


COMMANDS = (cancel, pause, resume, stop, release, requeue, resolve)
