"""Section 3.2, executed twice: a job is taken away when its worker is proved dead, and by no other sign."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scenario_stage import DAY_S, Stage, staying, stepped, together, until

from perenne import JobState
from perenne.files.lock import Lock, holder
from perenne.runtime import owner
from perenne.runtime.worker import Report


def test_c08_long_and_delayed_jobs_are_delivered_once(stage: Stage) -> None:
    """Thread: tasks that were long, or delayed, were delivered again when a visibility timeout ran out before them.

    A long job stays with its worker through any number of looks; a delayed one is with nobody until it is due, and
    then with one.
    """
    with stage.open() as engine, stage.worker() as owner_of_long:
        long = stage.submit(engine, "wait")
        stage.until_runs(long)
        delayed = stage.submit(engine, not_before=datetime.now(UTC) + timedelta(hours=1))
        for minutes in range(0, 60, 5):
            with stage.open("work", clock=stepped(minutes * 60)) as worker:
                assert worker.work().ended == 0
        assert (engine.job(delayed).state, engine.job(delayed).number) == (JobState.QUEUED, 0)

        def work_at_last() -> Report:
            with stage.open("work", clock=stepped(3601)) as worker:
                return worker.work()

        reports = together(*[work_at_last] * 4)
        assert sum(report.ended for report in reports) == 1
        assert [report.recovered for report in reports] == [0] * 4
        stage.go_all()
        assert engine.wait(long, 20).result == str(owner_of_long.pid).encode()
    assert len(stage.runs(delayed)) == len(stage.runs(long)) == 1


def test_c10_recovery_leaves_what_runs_in_its_own_process(stage: Stage) -> None:
    """Thread: starting recovery executed a workflow again that was running in the very same process.

    A second worker of the same process, and each look of the first one, leave its live attempts alone: each worker has
    an identity and a lock of its own, and the process has none.
    """
    with stage.open("work") as first:
        worker = first.worker(slots=2)
        with staying(worker):
            job = stage.submit(first, "wait")
            stage.until_runs(job)
            with stage.open("work") as second:
                for _ in range(5):
                    assert second.work().recovered == 0
                    first.pause(queue="other")  # rings: the first worker looks around as well
                    first.resume(queue="other")
            quick = stage.submit(first)
            assert first.wait(quick, 20).state is JobState.COMPLETED
            stage.go_all()
            assert first.wait(job, 20).state is JobState.COMPLETED
        assert worker.report.recovered == 0
    assert [attempt for attempt, _ in stage.runs(job)] == [1]


def test_c12_neither_old_age_nor_youth_decides(stage: Stage) -> None:
    """Thread: a running job was queued again because it was old.

    An owner is a process by number, start and boot, and a held lock; an attempt of the year 2000 stays with a live
    one, and one of the year 2100 is taken from a dead one at once.
    """
    with stage.open() as engine, stage.worker() as process:
        job = stage.submit(engine, "wait", "")
        stage.until_runs(job)
        id = stage.owner_of(process.pid)
        [[pid, boot, started]] = stage.sql(f"select pid, boot_id, started from owner where id = '{id}'")
        assert (pid, boot, started) == (process.pid, owner.boot_id(), owner.started(process.pid))
        assert f"pid {process.pid}, started {started}, boot {boot}" in holder(stage.workspace.lock_of(id))
        assert Lock.take(stage.workspace.lock_of(id)) is None

        def age(years: int) -> None:
            moment = round(years * 365.25 * DAY_S * 1e6)
            stage.sql(f"update attempt set claimed_at = {moment}")
            stage.sql(f"update owner set joined_at = {moment}")
            stage.sql(f"update job set submitted_at = {moment}, updated_at = {moment}")

        age(30)
        with stage.open("work") as rescuer:
            assert rescuer.work().recovered == 0
        assert engine.job(job).number == 1
        age(130)
        process.kill()
        process.wait()
        with stage.open("work") as rescuer:
            assert rescuer.work().recovered == 1
        assert engine.job(job).state is JobState.COMPLETED
    until(lambda: [attempt for attempt, _ in stage.runs(job)] == [1, 2])
