"""`demo`: the acceptance scenario of the reference (L:2.23), with two real crashes.

Each worker is a process of its own; the first two are armed to die after publishing and before acknowledging.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from perenne import Job, JobState, crashpoints
from perenne.apps.evidence import catalogue, jobs, places, rows
from perenne.apps.evidence.commands import asking, opening
from perenne.apps.evidence.commands.exporting import all_jobs
from perenne.apps.evidence.commands.looking import job_table
from perenne.apps.evidence.commands.names import FileNames
from perenne.apps.evidence.images.exiftool import INSTALL_COMMAND

DONE, FAILED, NEEDS_A_PERSON = 0, 1, 4
CRASH_POINT = "publish.committed"
CHILD_LIMIT_S = 120
RECOVERED = "recovered_after_publish"


@click.command(short_help="Kill two analyses by SIGKILL, finish both.")
@click.option(
    "--workspace", type=click.Path(path_type=Path), metavar="DIR", help="A new folder; a temporary one when left out."
)
@click.pass_context
def demo(ctx: click.Context, workspace: Path | None) -> None:
    """Kill the analysis of a mail and of a picture, each after its result was published, and finish both.

    Needs ExifTool for the picture; without it the mail is done, and the exit code is 4.

    Example: perenne evidence demo
    """
    root = workspace or Path(tempfile.mkdtemp(prefix="perenne-demo-")) / "specimen"
    ctx.exit(Demonstration(root).play())


class Demonstration:
    """One performance of the scenario in a new specimen workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._with_picture = jobs.missing_exiftool() is None
        self._failed = False

    def play(self) -> int:
        """Crash twice, recover twice, run once more; gives the exit code."""
        self._prepare()
        self._crash("mail", extractions=1)
        if self._with_picture:
            self._crash("picture", extractions=2)
        self._say("A worker that is left alone finds what the dead one published:")
        self._run(expected=DONE if self._with_picture else NEEDS_A_PERSON)
        self._show_end()
        self._run_again()
        return self._verdict()

    def _prepare(self) -> None:
        opening.create_specimen(self._root)
        with opening.opened(self._root, "write") as engine:
            for request in asking.wanted_requests(engine):
                jobs.submit(engine, request)
        self._say(f"A specimen workspace in {self._root}:")
        self._note("an invented mail, an invented picture, two jobs; the picture waits for the mail")

    def _crash(self, what: str, *, extractions: int) -> None:
        self._say(f"A worker armed to die at {CRASH_POINT}, which only a specimen allows:")
        code, said = self._worker(crash_point=CRASH_POINT)
        self._quote(said)
        self._check(f"the worker was killed by SIGKILL while it did the {what}", code == -signal.SIGKILL)
        running = [job for job in self._jobs() if job.state is JobState.RUNNING]
        published = len(self._extractions())
        self._check(
            f"the {what} is published ({published} of 2), but its job still says RUNNING",
            published == extractions and len(running) == 1,
        )

    def _run(self, *, expected: int) -> None:
        code, said = self._worker()
        self._quote(said)
        self._check(f"the worker ended by itself with exit code {code}", code == expected)

    def _show_end(self) -> None:
        found = self._jobs()
        done = [job for job in found if job.state is JobState.COMPLETED]
        count = 2 if self._with_picture else 1
        self._say("What stands now:")
        for line in job_table(found, FileNames(self._root))[1:]:
            self._note(line)
        self._check(f"{count} COMPLETED, {RECOVERED}", [job.diagnostic for job in done] == [RECOVERED] * count)
        self._check("one attempt each", all(job.number == 1 for job in done))
        wanted = sorted(msgspec.json.decode(job.publications)["extraction"] for job in done)
        self._check(f"exactly {len(wanted)} extractions", self._extractions() == wanted)

    def _run_again(self) -> None:
        self._say("Run once more:")
        before = self._everything()
        self._run(expected=DONE if self._with_picture else NEEDS_A_PERSON)
        self._check("not a byte of jobs, results or originals changed", self._everything() == before)

    def _verdict(self) -> int:
        click.echo("")
        if self._failed:
            click.echo("The demonstration did not go as promised; see the lines marked NO.")
            return FAILED
        if not self._with_picture:
            click.echo(f"The mail half went as promised. The picture waits for ExifTool: {INSTALL_COMMAND}")
            return NEEDS_A_PERSON
        click.echo("Killed twice, nothing lost, nothing done twice.")
        return DONE

    def _worker(self, *, crash_point: str | None = None) -> tuple[int, str]:
        """Run `perenne evidence run` in a process of its own; its exit code (negative: signal) and what it said."""
        environment = {name: value for name, value in os.environ.items() if name != crashpoints.VARIABLE}
        if crash_point is not None:
            environment[crashpoints.VARIABLE] = crash_point
        command = [sys.executable, "-m", "perenne", "evidence", "run", "--workspace", str(self._root)]
        ended = subprocess.run(command, env=environment, stdout=-1, stderr=-2, text=True, timeout=CHILD_LIMIT_S)
        return ended.returncode, ended.stdout

    def _jobs(self) -> list[Job]:
        with opening.opened(self._root, "read") as engine:
            return list(all_jobs(engine))

    def _extractions(self) -> list[str]:
        with catalogue.reading(self._root) as connection:
            return rows.extraction_ids(connection)

    def _everything(self) -> tuple[list[Job], dict[str, str]]:
        """The rows of all jobs, and the digest of every file but the ledger's own."""
        files = [path for path in sorted(self._root.rglob("*")) if path.is_file()]
        kept = {path: path.relative_to(self._root).as_posix() for path in files}
        return self._jobs(), {
            name: places.sha256_of(path.read_bytes())
            for path, name in kept.items()
            if not name.startswith(f"{places.RUNTIME}/")
        }

    def _say(self, sentence: str) -> None:
        click.echo(f"\n{sentence}")

    def _note(self, sentence: str) -> None:
        click.echo(f"  {sentence}")

    def _quote(self, said: str) -> None:
        for line in said.splitlines():
            click.echo(f"  | {line}")

    def _check(self, sentence: str, holds: bool) -> None:
        self._failed = self._failed or not holds
        click.echo(f"  {'ok' if holds else 'NO'}  {sentence}")
