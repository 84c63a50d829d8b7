"""Sections 3.13 and 3.16: what cannot be kept is refused once, and what was published is found and not repeated."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import scenario_app
import scenario_tasks
from scenario_cut import StrictDisk
from scenario_stage import Stage

import perenne
from perenne import App, Context, Engine, JobState, Kind, Publication, Published, upkeep
from perenne.errors import StorageError, TooLarge
from perenne.files import atomic

S = JobState


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Engine]:
    """An engine of the tasks, open for work."""
    root = Stage(tmp_path / "tasks", scenario_tasks.app).root
    with perenne.open(root, scenario_tasks.app, access="work") as engine:
        yield engine


def test_c69_too_large_arguments_are_refused_before_anything_is_stored(tasks: Engine) -> None:
    """Thread: arguments above a limit of the store corrupted the execution, or were tried again without an end.

    By every way in the refusal names size and limit; no job is made and no place is taken, one byte less is welcome,
    and in a transaction the rest stands.
    """
    most = "x" * (256 * 1024 - len('{"size":1,"text":""}'))
    for submit in (
        lambda: scenario_tasks.note.enqueue(most + "x"),
        lambda: tasks.submit("note", b'{"text":"%s","size":1}' % (most + "x").encode()),
        lambda: tasks.submit_many(
            [tasks.request("note", {"text": "small"}), tasks.request("note", {"text": most + "x"})]
        ),
    ):
        with pytest.raises(TooLarge, match="input: 262145 bytes, the limit is 262144"):
            submit()
    assert (tasks.jobs(), tasks.queues()[0].unfinished) == ([], 0)
    job = scenario_tasks.note.enqueue(most)
    assert tasks.job(job.job_id).state is S.QUEUED


def test_c70_a_result_above_the_limit_is_one_failure(tasks: Engine) -> None:
    """Thread: an item above the message limit was sent again for ever; an output above it left its flow RUNNING.

    The job is FAILED after one run, with size and limit and what to do, although attempts are left; the next job runs.
    """
    large, small = scenario_tasks.answer.enqueue("large"), scenario_tasks.note.enqueue("a")
    tasks.work()
    failed = tasks.job(large.job_id)
    assert (failed.state, failed.number, failed.max_attempts) == (S.FAILED, 1, 3)
    assert "300002 bytes, the limit is 262144; store it" in (failed.diagnostic or "")
    assert tasks.job(small.job_id).state is S.COMPLETED


@pytest.mark.parametrize("sort", ["object", "nan", "half", "deep"])
def test_c71_a_result_that_cannot_be_stored_ends_its_job(tasks: Engine, sort: str) -> None:
    """Thread: a result could not be written, and its execution was stuck in RUNNING.

    Whatever is wrong with it, the end is recorded: FAILED after one run, with the reason; the worker goes on.
    """
    job, next_one = scenario_tasks.answer.enqueue(sort), scenario_tasks.note.enqueue("a")
    tasks.work()
    assert (tasks.job(job.job_id).state, tasks.job(job.job_id).number) == (S.FAILED, 1)
    assert (tasks.job(job.job_id).diagnostic or "").startswith("result: ")
    assert tasks.job(next_one.job_id).state is S.COMPLETED


@pytest.mark.parametrize("point", ["run.executed", "acknowledge.begun", "acknowledge.written", "acknowledge.committed"])
def test_c81_what_was_sent_is_not_sent_again_because_the_mark_is_missing(stage: Stage, point: str) -> None:
    """Thread: the message was sent, marking it as sent failed, and it was sent again.

    The intent was durable before, under an id of its own. Killed at any place between publication and mark, the next
    worker looks under that id, finds it sent, and marks it; it was really written once.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "publish", kind="page")
        stage.dies(PERENNE_CRASH_POINT=point)
        with stage.open("work") as worker:
            worker.work()
        found = engine.job(job)
        assert (found.state, stage.written()) == (S.COMPLETED, [job])
        assert found.number == 1
        assert found.reason == ("published" if point == "acknowledge.committed" else "recovered_after_publish")


def test_c82_an_unknown_outcome_is_read_back_and_never_assumed(stage: Stage) -> None:
    """Thread: a call that was interrupted, with an unknown outcome, was recorded as sent.

    After an interruption the outcome is looked up. Found, it counts; not there, the job runs again; unreadable, it is
    neither: the job waits for a person, is not run meanwhile, and stays as that person says.
    """
    with stage.open() as engine:
        there, absent, unreadable = (
            stage.submit(engine, first, "publish", kind="page") for first in ("publish die", "die", "publish die")
        )
        for _ in range(3):
            stage.dies()
        page = scenario_app.page_of(publication_of(stage, engine, unreadable))
        page.unlink()
        page.mkdir()
        with stage.open("work") as worker:
            worker.work()
        states = [engine.job(id).state for id in (there, absent, unreadable)]
        assert states == [S.COMPLETED, S.COMPLETED, S.RECOVERY_REQUIRED]
        assert [engine.job(id).number for id in (there, absent, unreadable)] == [1, 2, 1]
        with stage.open("work") as worker:
            assert worker.work().ended == 0
        assert engine.resolve(unreadable, S.COMPLETED, "it was in the outbox").state is S.COMPLETED


def publication_of(stage: Stage, engine: Engine, job_id: str) -> Publication:
    from perenne.runtime import lookup

    return lookup.identity_of(engine.job(job_id), scenario_app.app.kind("page"), stage.root)


def test_c83_torn_and_empty_files_stop_nothing_but_themselves(stage: Stage) -> None:
    """Thread: one empty file, or zeroes at the end of another, kept the whole server from starting.

    A log with a torn tail is written on, an emptied snapshot is made anew, a publication that was emptied is left to a
    person while every other job runs, and a torn tail of the write-ahead log is not taken for anything that was said.
    """
    with stage.open() as engine:
        bad = stage.submit(engine, "publish die", "publish", kind="page")
        stage.dies()
        good = [stage.submit(engine, "publish", kind="page") for _ in range(3)]
        scenario_app.page_of(publication_of(stage, engine, bad)).write_bytes(b"")
    log = stage.workspace.log_of(bad)
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(log.read_bytes()[:-7] + b'{"torn' if log.exists() else b'{"torn')
    for snapshot in stage.root.glob("*snapshot.json"):
        snapshot.write_bytes(b"")
    with Path(f"{stage.workspace.ledger}-wal").open("ab") as wal:
        wal.write(b"\0" * 8192 + b"torn")
    with stage.open("work") as engine:
        engine.work()
        assert engine.job(bad).state is S.RECOVERY_REQUIRED
        assert [engine.job(id).state for id in good] == [S.COMPLETED] * 3
    stage.assert_sound()


def test_c83_a_ledger_of_zeroes_can_still_be_looked_at(stage: Stage) -> None:
    """Thread: the same.

    Opening refuses it in one sentence and changes no byte; the doctor looks, and says which file is damaged.
    """
    with stage.open() as engine:
        stage.submit(engine)
    ledger = stage.workspace.ledger
    for damaged in (b"\0" * ledger.stat().st_size, b""):
        ledger.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"ledger\.sqlite"):
            stage.open()
        assert ledger.read_bytes() == damaged
        found = [one for one in upkeep.doctor(stage.root, stage.app) if one.verdict != "ok"]
        assert "ledger" in " ".join(one.sentence for one in found)


@pytest.mark.skipif(sys.platform == "darwin", reason="NOT RUN: macOS syncs by another call, which is not recorded")
def test_c84_what_is_acknowledged_keeps_content_and_name(tmp_path: Path) -> None:
    """Thread: the content was synced and its name was not; after a power loss the file was the old one, or empty.

    When a job is COMPLETED, the file that it published lasts with its new content under its name, also one that took
    the place of an older one; cut at any call before, it is the old one or the new one.
    """
    page = tmp_path / "page"
    page.write_text("old text")
    disks: list[StrictDisk] = []

    def write(publication: Publication) -> None:
        with pytest.MonkeyPatch.context() as patched:
            disks.append(StrictDisk(patched))
            atomic.write(page, b"new text", protocol="publish")

    def handle(context: Context, input: int) -> Any:
        return context.publish(write)

    look = lambda publication: Published.coherent("page") if disks else Published.absent()  # noqa: E731
    pages = App("pages", [Kind("page", 1, handle, int, publications=("page",), lookup=look)])
    root = Stage(tmp_path / "stage", pages).root
    with perenne.open(root, pages, access="work") as engine:
        job = engine.submit("page", 1).job_id
        engine.work()
        assert engine.job(job).state is S.COMPLETED
    [disk] = disks
    states = dict(disk.contents(page, "old text"))
    assert set().union(*states.values()) == {"old text", "new text"}
    assert states[len(disk.calls)] == {"new text"}


def test_c85_a_bad_checkpoint_stops_its_job_and_no_worker(stage: Stage) -> None:
    """Thread: a restart read a bad checkpoint, failed, was restarted, and read it again, for ever.

    The job that saved it waits in RECOVERY_REQUIRED with the answer, and its handler is not called again; it has one
    attempt, however many workers come. Every other job runs. A person lets it begin from the start.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "save die", "", kind="saved", max_attempts=10)
        stage.dies()
        path = stage.workspace.checkpoints_folder / f"{job}.chk"
        path.write_bytes(path.read_bytes()[:-1])
        others = []
        for _ in range(3):
            others.append(stage.submit(engine, "", kind="saved"))
            with stage.open("work") as worker:
                worker.work()
        waits = engine.job(job)
        assert (waits.state, waits.reason) == (S.RECOVERY_REQUIRED, "checkpoint_refused")
        assert (waits.diagnostic or "").startswith("checkpoint_corrupt: ")
        assert (len(stage.runs(job)), waits.number) == (1, 2)
        assert {engine.job(other).state for other in others} == {S.COMPLETED}
        engine.resolve(job, S.QUEUED, "it can be computed again", from_start=True)
        with stage.open("work") as worker:
            worker.work()
        assert engine.job(job).state is S.COMPLETED
    assert len(stage.runs(job)) == 2
