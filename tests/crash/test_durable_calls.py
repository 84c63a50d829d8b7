"""Between two neighbouring crash points lies at most one durable call, so killing at every point visits every state.

Each protocol is run in a child that records its durable calls and its passages, in the order in which they happen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import children, evidence_scenarios
from harness.evidence_trial import EvidenceTrial, has_exiftool
from harness.journal import Journal
from harness.plan import in_children, one_of_each, outliving
from harness.sample_trial import SampleTrial
from harness.trace import DURABLE, neighbours, recorded
from harness.trial import Trial

import perenne
from perenne.files import workspace
from perenne.runtime import backup, clock
from perenne.runtime.pruner import Pruner
from perenne.store.retention import Retention, Rule
from perenne.store.sqlite import backup as copies
from perenne.store.sqlite.driver import SQLiteDriver

pytestmark = pytest.mark.crash


class Recording:
    """Children whose durable calls are recorded."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder / "trace.jsonl")

    def of(self, trial: Trial, work: Callable[[], object]) -> list[list[str]]:
        """What each thread of a child does while it does this work to its end."""
        before = len(self._journal.read())

        def record() -> None:
            with recorded() as threads:
                try:
                    work()
                except SystemExit as end:
                    if end.code not in (0, 4):
                        raise
            self._journal.write(seen=list(threads.values()))

        trial.run("recorded", record)
        (line,) = self._journal.read()[before:]
        seen: list[list[str]] = line["seen"]
        return seen

    def holds(self, trial: Trial, work: Callable[[], object], *points: str) -> None:
        """Assert that these points were passed, and that no two durable calls of a thread are neighbours."""
        seen = self.of(trial, work)
        passed = {name for names in seen for name in names}
        assert set(points) <= passed, f"not passed: {sorted(set(points) - passed)}"
        assert passed & DURABLE, "the trace saw no durable call"
        assert not (found := neighbours(seen)), found


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


@pytest.fixture
def trial(tmp_path: Path) -> SampleTrial:
    return SampleTrial(tmp_path / "sample", one_of_each())


@pytest.fixture
def evidence(tmp_path: Path) -> EvidenceTrial:
    return EvidenceTrial(tmp_path / "evidence", with_picture=has_exiftool())


def test_the_trace_sees_a_missing_point(recording: Recording, trial: SampleTrial, tmp_path: Path) -> None:
    """Two syncs without a point between them are found, and named by the points around them."""

    def careless() -> None:
        perenne.open(trial.root, trial.app).close()
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.fsync(descriptor)
        os.fsync(descriptor)

    assert neighbours(recording.of(trial, careless)) == ["fsync and fsync between the beginning and the end"]


def test_making_a_workspace(recording: Recording, trial: SampleTrial, tmp_path: Path) -> None:
    """Folders, ledger, queues and manifest of a new workspace."""
    steps = ("folder_made", "store_formatted", "store_made", "store_named", "staged", "renamed", "folder_synced")
    points = [f"create.{step}" for step in steps]
    recording.holds(trial, lambda: children.create(tmp_path / "new"), *points, "notice.registered")


def test_submitting(recording: Recording, trial: SampleTrial) -> None:
    """Submits one after another."""
    work = lambda: children.submit(trial.root, trial.requests, trial.accepted)  # noqa: E731
    recording.holds(trial, work, "submit.written", "submit.committed", "submit.woken")


def test_steering(recording: Recording, trial: SampleTrial) -> None:
    """Cancels, pauses and resumes of jobs, queue and workspace."""
    trial.submit_all()
    jobs = [request.job_id for request in trial.requests]
    work = lambda: children.steer(trial.root, jobs, trial.steered, seed=1, moves=20)  # noqa: E731
    recording.holds(trial, work, "control.written", "control.committed")


def test_working(recording: Recording, trial: SampleTrial) -> None:
    """Claims, handlers with and without a tool that must be killed, publishing, retries, acknowledging, signing off."""
    trial.submit_all()
    runs = ("looked_up", "copied", "host_spawned", "tool_spawned", "tool_signaled", "tool_ended", "copy_removed")
    points = [f"run.{step}" for step in (*runs, "leftover_removed", "executed")]
    points += ["claim.committed", "publish.committed", "acknowledge.committed", "progress.committed"]
    points += ["wake.pipe_made", "wake.pipe_named", "wake.pipe_removed", "owner.joined", "owner.left"]
    recording.holds(trial, lambda: children.work(trial.root, trial.told, slots=1, stay=False), *points)


def test_working_in_children(recording: Recording, tmp_path: Path) -> None:
    """Children are started, asked, and buried after a crash."""
    trial = SampleTrial(tmp_path / "children", in_children())
    trial.submit_all()
    points = [f"run.child_{step}" for step in ("spawned", "locked", "asked", "signaled", "unlocked")]
    recording.holds(trial, lambda: children.work(trial.root, trial.told, slots=1, stay=False), *points)


def test_recovering_a_child(recording: Recording, tmp_path: Path) -> None:
    """Recovery ends a child that outlived its worker."""
    trial = SampleTrial(tmp_path / "outliving", outliving(60))
    trial.submit_all()
    trial.worker_with_a_deaf_child().kill()
    points = ["recover.child_signaled", "recover.child_unlocked", "recover.committed"]
    recording.holds(trial, lambda: children.work(trial.root, trial.told, slots=1, stay=False), *points)


@pytest.mark.parametrize("death", ["publish.staged", "run.tool_spawned", "acknowledge.begun"])
def test_recovering(recording: Recording, trial: SampleTrial, death: str) -> None:
    """Recovery after several workers died at this point."""
    trial.submit_all()
    for _ in range(2):
        trial.kill(trial.worker(death), death)
    points = ["recover.looked_up", "recover.written", "recover.committed", "recover.lock_removed"]
    recording.holds(trial, lambda: children.work(trial.root, trial.told, slots=1, stay=False), *points)


def test_listening_and_waiting(recording: Recording, trial: SampleTrial) -> None:
    """Taking durable notices, and waiting for the end of a job."""
    trial.work_off()

    def listen_and_wait() -> None:
        children.deliver(trial.root, trial.delivered)
        with perenne.open(trial.root, trial.app) as engine:
            engine.wait(trial.requests[0].job_id, 1)

    recording.holds(trial, listen_and_wait, "notice.acknowledged")


def test_upkeep(recording: Recording, trial: SampleTrial, tmp_path: Path) -> None:
    """Backing up, purging and restoring."""
    trial.work_off()
    place, saved = workspace.read(trial.root), tmp_path / "saved.sqlite"

    def keep_up() -> None:
        backup.backup(place, saved, copies=copies)
        driver = SQLiteDriver(place.ledger, workspace=place.id)
        Pruner(place, Retention(driver), clock.SYSTEM, "person:crash").purge(Rule(keep=0), step=2)
        driver.close()
        backup.restore(place, saved, copies=copies, clock=clock.SYSTEM, actor="person:crash")

    recording.holds(trial, keep_up, "backup.renamed", "purge.committed", "restore.renamed")


def test_making_an_investigation(recording: Recording, evidence: EvidenceTrial) -> None:
    """`perenne evidence init-specimen`, which also imports."""
    recording.holds(evidence, evidence.work("init-specimen"), "create.catalogue_made", "import.committed")


def test_importing_and_exporting(recording: Recording, evidence: EvidenceTrial) -> None:
    """`import` and `export`, over what killed ones left."""
    evidence.do("init-specimen")
    evidence.kill(evidence.importer("import.staged:2"), "import.staged")
    evidence.kill(evidence.exporter("export.staged"), "export.staged")
    recording.holds(evidence, evidence.work("import", *evidence.files), "import.leftover_removed", "import.committed")
    recording.holds(evidence, evidence.work("export"), "export.leftover_removed", "export.folder_synced")


def test_analysing(recording: Recording, evidence: EvidenceTrial) -> None:
    """`run` on mails, and on a picture where ExifTool is installed, with exports; also over a leftover."""
    evidence_scenarios.submitted_over_a_leftover(evidence)
    points = ["publish.leftover_removed", "publish.committed", "acknowledge.committed", "export.renamed"]
    points += ["run.tool_ended", "run.copy_removed"] if evidence.with_picture else []
    recording.holds(evidence, evidence.work("run"), *points)
