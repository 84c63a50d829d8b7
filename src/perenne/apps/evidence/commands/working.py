"""`run`: one worker on the investigation, and what it says while it works."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import click

from perenne import Engine, Job, JobState
from perenne.apps.evidence import originals
from perenne.apps.evidence.commands import opening
from perenne.apps.evidence.commands.exporting import Exporter, all_jobs
from perenne.apps.evidence.commands.names import WORDS, FileNames
from perenne.apps.evidence.commands.screen import screen

DONE, FAILED, NEEDS_A_PERSON = 0, 1, 4

_ENDED = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.DEAD)


@click.command(short_help="Do the jobs that wait, after settling old ones.")
@opening.in_workspace
@click.option("--stay", is_flag=True, help="Wait for more work until told to stop, instead of ending when done.")
@click.option("--slots", type=opening.Between(1, 64), default=1, show_default=True, help="Jobs at the same time.")
@click.pass_context
def run(ctx: click.Context, workspace: Path, stay: bool, slots: int) -> None:
    """Settle what a dead worker or import left, then do the jobs that wait.

    Exit code 0 when every job that ended here is done, 1 when one failed or waits for another attempt, 4 when one needs
    a person or something that is missing. One worker per investigation; a second one is refused.

    Example: perenne evidence run --workspace ~/case-7
    """
    with opening.opened(workspace, "work") as engine:
        progress, export = Progress(engine), Exporter(engine)
        engine.on_end(export)
        engine.on_end(progress)
        originals.sweep(workspace)
        progress.begin(stay)
        engine.work(slots=slots, stay=stay)
        export()
        code = progress.finish()
    ctx.exit(code)


class Progress:
    """One line for each job that ends here, and at last what is left to do."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._screen = screen()  # here, because the threads of the worker know of no command
        self._names = FileNames(engine.workspace.root)
        self._ended: Counter[str] = Counter()
        self._total = 0
        self._speaking = threading.Lock()

    def begin(self, stay: bool) -> None:
        """Say what there is to do."""
        self._total = self._unfinished()
        until = "; stays until `perenne evidence stop` or Ctrl-C" if stay else ""
        click.echo(f"{self._screen.count(self._total, 'job')} to do{until}")

    def __call__(self, job: Job) -> None:
        with self._speaking:  # one slot at a time, so that the numbers follow one another
            self._ended[job.state] += 1
            done = self._ended.total()
            # It only grows: another slot's job may have ended already and not have had its turn to speak.
            self._total = max(self._total, done + self._unfinished())
            name = self._screen.one_line(self._names.of(job))
            took = f"  {self._screen.duration(job.active_ms / 1000)}" if job.active_ms else ""
            note = f"  {self._screen.one_line(job.diagnostic)}" if job.diagnostic else ""
            what = f"{job.state:<9}  {WORDS.get(job.kind, job.kind):<12}"
            click.echo(f"{self._screen.progress(done, self._total)} {what}  {name}{took}{note}")

    def finish(self) -> int:
        """Say what this run did and what it leaves; gives the exit code."""
        missing = [job for job in all_jobs(self._engine) if _needs_a_person(job)]
        waiting = self._engine.counts().get(JobState.RETRY_WAIT, 0)
        click.echo(f"ended: {self._screen.states(self._ended)}; all jobs: {self._screen.states(self._engine.counts())}")
        for reason, count in Counter(job.diagnostic or job.reason for job in missing).items():
            click.echo(f"{self._screen.count(count, 'job')} cannot go on: {self._screen.one_line(reason)}")
        if waiting:
            click.echo(
                f"{self._screen.count(waiting, 'job waits', 'jobs wait')} for another attempt; run again, or --stay"
            )
        self._say_controls()
        if waiting or self._ended[JobState.FAILED] or self._ended[JobState.DEAD]:
            return FAILED
        return NEEDS_A_PERSON if missing else DONE

    def _unfinished(self) -> int:
        return sum(count for state, count in self._engine.counts().items() if state not in _ENDED)

    def _say_controls(self) -> None:
        controls = self._engine.controls()
        if controls.paused or controls.stopped:
            word = "stopped" if controls.stopped else "paused"
            click.echo(f"the workspace is {word}; `perenne evidence resume` lets new jobs start")


def _needs_a_person(job: Job) -> bool:
    """In doubt, or blocked by something else than a dependency that has its own turn."""
    if job.state is JobState.BLOCKED:
        return job.reason != "waiting_for_dependencies"
    return job.state is JobState.RECOVERY_REQUIRED
