"""A trial of Evidence: its own commands, run as the command line runs them, in processes that may die."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from harness import evidence_oracles
from harness.ledger_file import Rows
from harness.oracles import require
from harness.processes import Victim
from harness.trial import Plant, Trial, harmless
from perenne import JobState

# Also what the commands load only when they need it: each child is a copy of this process, and need not load it again.
from perenne.apps.evidence import catalogue, jobs, requests, rows, whole_mail
from perenne.apps.evidence.commands import asking, demo, group, opening
from perenne.apps.evidence.images import artefact as picture_artefact
from perenne.apps.evidence.images import exiftool
from perenne.apps.evidence.mail_headers import analyser
from perenne.apps.evidence.mail_headers import artefact as mail_artefact
from perenne.surfaces.cli.main import main

SAMPLES = Path(__file__).parents[3] / "examples" / "evidence"
MAILS = sorted((SAMPLES / "eml").glob("*.eml"))
PICTURES = sorted((SAMPLES / "img").iterdir())
NESTED = SAMPLES / "eml" / "own-05-nested-three.eml"
WHOLE_KEY = "44444444-5555-4666-8777-888888888888"
# The mail and the two messages within each other that it holds, as whoever wrote it recorded them.
NESTED_DIGESTS = (
    "be326176c8f792db0e4b86c2c6be898f052203e56bf384911ecf4f75b52128d1",
    "f559cdb8f0c2222c481a2aa0532f35cdbb7591a42fc3f9f8ca7799b86809c862",
    "7841fbe929bfbc65fbaa74debfb438838a7b6e57d2e256d012e8fc7bfcf3c661",
)
DONE, FAILED, REFUSED, NEEDS_A_PERSON = 0, 1, 3, 4
_LOADED = (analyser, demo, exiftool, group, mail_artefact, picture_artefact, whole_mail)


class EvidenceTrial(Trial):
    """A specimen investigation, its own mail beside sample mails; `with_picture` also asks ExifTool.

    `whole`: one mail with messages nested in each other, which is also analysed whole.
    """

    rested = (DONE, NEEDS_A_PERSON)

    def __init__(
        self, folder: Path, plant: Plant = harmless, *, with_picture: bool = False, whole: bool = False
    ) -> None:
        super().__init__(folder, ".labfy/runtime", plant)
        self.with_picture = with_picture
        self.whole = whole
        self.files = [NESTED] if whole else MAILS[:3]

    def command(self, *words: object, point: str | None = None, before: Callable[[], object] = harmless) -> Victim:
        """`perenne evidence …` in a child; `before` runs there first."""

        def command() -> None:
            before()
            self.work(*words)()

        return self.start(f"perenne evidence {words[0]}", command, point)

    def work(self, *words: object) -> Callable[[], None]:
        """`perenne evidence …` as a piece of work, which ends with the command's exit code."""
        return lambda: sys.exit(main(["evidence", str(words[0]), "--workspace", str(self.root), *map(str, words[1:])]))

    def do(self, *words: object, codes: tuple[int, ...] = (DONE,)) -> int:
        """A command that must end well."""
        code = self.command(*words).end()
        require(code in codes, f"perenne evidence {words[0]} ends well", code, self.said())
        return code

    def maker(self, point: str | None = None) -> Victim:
        return self.command("init-specimen", point=point)

    def importer(self, point: str | None = None) -> Victim:
        return self.command("import", *self.files, point=point)

    def input_importer(self, point: str | None = None) -> Victim:
        """An import of what the making of the specimen had written, but had not come to import."""
        return self.command("import", self.root / "SPECIMEN_INPUT", point=point)

    def failing_importer(self, point: str | None = None) -> Victim:
        """An import that copies two files and then meets one that is refused."""
        bad = self.folder / "empty.eml"
        bad.touch()
        return self.command("import", *MAILS[3:5], bad, point=point)

    def worker(self, point: str | None = None) -> Victim:
        return self.command("run", point=point)

    def exporter(self, point: str | None = None) -> Victim:
        return self.command("export", point=point)

    def submitter(self, point: str | None = None) -> Victim:
        """Submits what has no job yet; each receipt goes into the journal after it was given."""
        wanted = (self.with_picture, self.whole)
        return self.start("submitter", lambda: _submit(self.root, self.accepted.write, *wanted), point)

    def submit(self) -> None:
        """Everything has its job."""
        code = self.submitter().end()
        require(code == 0, "the submitter ends well", code, self.said())

    def finish(self) -> None:
        self.finish_making()
        self.do("import", *self.files)
        self.submit()
        self.do("run", codes=(*self.rested, FAILED))
        self.run("person", lambda: _requeue_exhausted(self.root))
        self.do("run", codes=self.rested)
        self.do("export")

    def published_jobs(self) -> set[str]:
        return evidence_oracles.published_jobs(self.rows(), self.root)

    def ask_results(self, rows: Rows) -> None:
        evidence_oracles.accepted_is_found(rows, self.accepted)
        evidence_oracles.every_original_is_analysed(rows, self.root, self.with_picture)
        evidence_oracles.nested_messages_are_analysed_once(rows, self.root, NESTED_DIGESTS if self.whole else ())
        evidence_oracles.originals_stand_once(self.root, [path.read_bytes() for path in self.files])
        evidence_oracles.published_once(rows, self.root)
        evidence_oracles.snapshot_agrees(rows, self.root)
        evidence_oracles.nothing_is_left(self.root)
        require("Traceback" not in self.log.read_text(), "no command ends with a traceback", self.said())

    def finish_making(self) -> None:
        """A workspace whose making was killed is whole and can be used, or is refused unchanged by every command."""
        before = _contents(self.root)
        if self.command("status").end() == DONE:
            return
        require(_contents(self.root) == before, "a refused look changes nothing")
        code = self.command("init-specimen").end()
        if code == DONE:
            return
        require(code == REFUSED, "half a workspace is refused by name", code, self.said())
        require(_contents(self.root) == before, "a refused making changes nothing")
        self.root.rename(self.folder / "half made")
        self.do("init-specimen")


def _submit(root: Path, accepted: Callable[..., None], with_picture: bool, whole: bool) -> None:
    with opening.opened(root, "write") as engine:
        for request in asking.wanted_requests(engine):
            if with_picture or request.capability == requests.MAIL_HEADERS:
                jobs.submit(engine, request)
                accepted(job=request.job_id)
        if whole:
            with catalogue.reading(root) as connection:
                nested = next(one for one in rows.originals(connection) if one.original_name == NESTED.name)
            jobs.submit(engine, requests.request_of(nested, requests.WHOLE_MAIL, WHOLE_KEY))
            accepted(job=WHOLE_KEY)


def _requeue_exhausted(root: Path) -> None:
    """A person gives those another chance whose workers were killed once too often; and nobody else."""
    with opening.opened(root, "write") as engine:
        for job in engine.jobs(state=JobState.DEAD):
            if job.interruptions == job.max_attempts:
                engine.requeue(job.id, "its workers were killed")


def _contents(root: Path) -> dict[str, bytes]:
    """Every file but the shared memory of SQLite, whose marks move when somebody reads."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def has_exiftool() -> bool:
    return shutil.which("exiftool", path="/usr/bin:/bin") is not None
