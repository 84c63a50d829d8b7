"""The kinds of Evidence: what the engine is told, and how a job is spoken of in the snapshot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import perenne
from perenne import JobState, errors
from perenne.apps.evidence import app, jobs, jobs_snapshot, requests
from perenne.apps.evidence.commands.exporting import line_of
from perenne.apps.evidence.images import exiftool
from perenne.apps.evidence.images.exiftool import Availability

HERE = Availability("available", "ExifTool 12.57 answers", "/usr/bin/exiftool", "12.57")
GONE = Availability("missing", "ExifTool is not installed; install it with `apt-get …`")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Availability]]:
    """The answers that ExifTool will give, one a probe."""
    answers: list[Availability] = []
    monkeypatch.setattr(exiftool, "probe", lambda cwd: answers.pop(0))
    monkeypatch.setattr(jobs, "_available", [])
    yield answers
    assert answers == [], "it was asked less often than foreseen"


@pytest.mark.parametrize("name", [requests.MAIL_HEADERS, requests.PICTURE_METADATA])
def test_kinds_keep_the_bounds_of_the_reference(name: str) -> None:
    """Version 1, three attempts, 30 s of active time, two ids fixed at submit; hopeless errors are not retried."""
    kind = app.kind(name)
    assert (kind.version, kind.max_attempts, kind.active_limit_s) == (1, 3, 30)
    assert kind.publications == ("extraction", "derivative")
    for error in (errors.InvalidInput, errors.TooLarge, errors.RecoveryRequired, errors.ToolTimedOut):
        assert not kind.retries(error())
    for again in (errors.StoreBusy, errors.DiskLow, errors.ToolFailed, errors.ToolMissing, OSError):
        assert kind.retries(again())


def test_the_app_fits_the_workspace_of_the_reference() -> None:
    """One queue of 128, the engine's files under .labfy/runtime, the commands by name."""
    assert (app.name, app.queues, app.runtime) == ("evidence", {"default": 128}, ".labfy/runtime")
    assert app.commands == "perenne.apps.evidence.commands:group"


def test_describing_the_app_loads_no_analyser() -> None:
    """Importing the application loads neither a tool runner nor an analyser nor a command."""
    program = "import sys, perenne.apps.evidence; print(*[n for n in sys.modules if n.startswith('perenne.')])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stdout.split()
    assert "perenne.apps.evidence.jobs" in loaded
    heavy = ("perenne.tools", "perenne.apps.evidence.mail", "perenne.apps.evidence.images", "perenne.surfaces")
    assert not [name for name in loaded if name.startswith((*heavy, "perenne.apps.evidence.commands"))]


def test_exiftool_is_asked_until_it_answers(probes: list[Availability]) -> None:
    """A missing ExifTool is looked for again; one that answered is not asked again in this process (T-33)."""
    probes += [GONE, HERE]
    assert "apt-get" in (jobs.missing_exiftool() or "")
    assert jobs.missing_exiftool() is None
    assert jobs.missing_exiftool() is None
    assert jobs.probed() == HERE


def test_every_state_is_spoken_of_in_the_snapshot(tmp_path: Path) -> None:
    """Each state of the engine has its words in the contract, and only a used-up time limit is `limit_reached`."""
    perenne.create(tmp_path, app, name="Case")
    given = {"evidence_id": "a" * 8 + "-aaaa-4aaa-8aaa-" + "a" * 12, "source_sha256": "0" * 64, "source_size": 1}
    with perenne.open(tmp_path, app) as engine:
        receipt = engine.submit(requests.MAIL_HEADERS, given | {"parameters": {"mode": "headers"}})
        job = engine.job(receipt.job_id)
    wanted = {
        JobState.COMPLETED: "published",
        JobState.FAILED: "failed",
        JobState.DEAD: "failed",
        JobState.CANCELLED: "cancelled",
        JobState.BLOCKED: "blocked",
        JobState.RECOVERY_REQUIRED: "blocked",
    }
    for state in JobState:
        line = line_of(_in(job, state, "any"))
        assert line.result_status == wanted.get(state)
        assert state.value in jobs_snapshot.snapshot(engine.workspace.id, [line]).decode() or state not in wanted
    assert line_of(_in(job, JobState.BLOCKED, "active_time_limit")).result_status == "limit_reached"
    assert line_of(job).source_evidence_id == given["evidence_id"]


def _in(job: perenne.Job, state: JobState, reason: str) -> perenne.Job:
    return msgspec.structs.replace(job, state=state, reason=reason)
