"""Section 3.1, zombie writers: who lost its right changes nothing any more, however late it comes back.

A living worker is made a zombie by letting its lock file vanish: everybody else then takes it for dead.
"""

from __future__ import annotations

import os
import signal

import pytest
from scenario_stage import DAY_S, Stage, at, stepped, token_of, until

from perenne import JobState
from perenne.core import events
from perenne.core.retry import Backoff
from perenne.errors import DuplicateJob, QueueFull, StaleToken, StoreBusy

FAILED = events.Raised("too late", retryable=True, backoff=Backoff())


def test_c01_an_older_executor_cannot_turn_a_newer_end_back(stage: Stage) -> None:
    """Thread: an executor that was given up on came back and overwrote the end that its successor had written.

    The report of a superseded attempt is refused as stale, noted once, and leaves every row byte-equal.
    """
    with stage.open() as engine, stage.worker() as old:
        job = stage.submit(engine, "wait fail", "wait")
        assert stage.until_runs(job, 1) == old.pid
        stage.lose_lock(old.pid)
        with stage.worker() as new:
            assert stage.until_runs(job, 2) == new.pid
            stage.go(job, 2)
            assert engine.wait(job, 20).state is JobState.COMPLETED
            before = stage.rows("job", "attempt", "history", "queue")
            stage.go(job, 1)
            until(lambda: stage.log("stale_report_dropped") == 1)
            assert stage.rows("job", "attempt", "history", "queue") == before
    stage.assert_sound()


def test_c02_a_rescuer_does_not_overwrite_a_job_that_just_completed(stage: Stage) -> None:
    """Thread: the rescuer read a list of stuck jobs; one completed meanwhile, and was rescued all the same.

    Recovery writes on the condition of the very attempt it read; what ended in between stays as it ended.
    """
    with stage.open() as engine, stage.hand() as holder, stage.open("work") as rescuer:
        job = stage.submit(engine)
        claim = holder.claim()
        assert claim is not None
        with at("recover.looked_up", lambda: holder.end(claim.token)) as passed:
            report = rescuer.work()
        assert "recover.looked_up" in passed
        assert report.recovered == report.ended == 0
        assert [line.verb for line in engine.history(job_id=job)] == ["submit", "claim", "complete"]
        assert engine.job(job).state is JobState.COMPLETED
    stage.assert_sound()


def test_c03_a_zombie_gives_its_place_back_once(stage: Stage) -> None:
    """Thread: a zombie ended its job after it had been replaced, gave the one slot back twice, and eleven ran at once.

    A place belongs to the job and is left with the end that counts: no late report opens a second one.
    """
    with stage.open() as engine, stage.hand("zombie") as zombie, stage.hand("heir") as heir:
        first = stage.submit(engine, queue="narrow", unique_key="one")
        old = zombie.claim()
        assert old is not None
        heir.settle(old.token)
        new = heir.claim()
        assert new is not None
        for _ in range(11):
            with pytest.raises(StaleToken):
                zombie.end(old.token)
        with pytest.raises(QueueFull):
            stage.submit(engine, queue="narrow")
        with pytest.raises(DuplicateJob):
            stage.submit(engine, unique_key="one")
        heir.end(new.token)
        for _ in range(11):
            with pytest.raises(StaleToken):
                zombie.end(old.token, FAILED)
        stage.submit(engine, queue="narrow")
        with pytest.raises(QueueFull):
            stage.submit(engine, queue="narrow")
        assert {queue.name: queue.unfinished for queue in engine.queues()}["narrow"] == 1
        assert engine.job(first).state is JobState.COMPLETED
    stage.assert_sound()


def test_c04_an_old_release_does_not_clear_the_new_owner(stage: Stage) -> None:
    """Thread: the token was checked by a select, the row then updated by its key; in between the owner had changed.

    A writer that is frozen between its check and its writes finds, when it goes on, that they touch no row.
    """
    with stage.open() as engine, stage.worker() as old:
        job = stage.submit(engine, "may freeze progress", "wait")
        os.waitpid(old.pid, os.WUNTRACED)
        stage.lose_lock(old.pid)
        with stage.worker() as new:
            assert stage.until_runs(job, 2) == new.pid
            before = stage.rows("job", "attempt", "history")
            os.kill(old.pid, signal.SIGCONT)
            until(lambda: stage.log("stale_report_dropped") == 1)
            assert stage.rows("job", "attempt", "history") == before
            assert engine.job(job).progress_done == 0
            stage.go(job, 2)
            assert engine.wait(job, 20).result == str(new.pid).encode()
    stage.assert_sound()


def test_c04_check_and_write_are_one_transaction(stage: Stage) -> None:
    """Thread: as above; SQLite has no row locks that would keep the row still between the two statements.

    A writer frozen between its check and its commit keeps everybody else out, is named, and then wins or loses whole.
    """
    with stage.open() as engine, stage.hand("thief") as thief, stage.worker("stop_at=acknowledge.written") as old:
        job = stage.submit(engine)
        os.waitpid(old.pid, os.WUNTRACED)
        token = token_of(engine, job)
        thief.driver._writer._busy_s = 0.2  # type: ignore[union-attr]
        with pytest.raises(StoreBusy, match=rf"process {old.pid} \(.*stopped\)"):
            thief.settle(token)
        os.kill(old.pid, signal.SIGCONT)
        assert engine.wait(job, 20).state is JobState.COMPLETED
        with pytest.raises(StaleToken):
            thief.settle(token)
        assert engine.job(job).number == 1
    stage.assert_sound()


def test_c05_no_rescue_by_age_while_the_owner_lives(stage: Stage) -> None:
    """Thread: a nightly job that took longer than the rescue time was executed two or three times each night.

    However many hours go by on the rescuers' clocks, a job stays with the worker whose lock is held.
    """
    with stage.open() as engine, stage.worker() as owner:
        job = stage.submit(engine, "wait")
        stage.until_runs(job)
        for hours in (*range(1, 25), 24 * 365):
            with stage.open("work", clock=stepped(hours * DAY_S / 24)) as rescuer:
                assert rescuer.work().recovered == 0
        stage.go_all()
        assert engine.wait(job, 20).result == str(owner.pid).encode()
    assert stage.runs(job) == [(1, owner.pid)]


def test_c06_a_late_success_is_found_as_publication_and_not_as_state(stage: Stage) -> None:
    """Thread: a slow run was given up on and run again; the second run failed, and the job with it, though the first
    had succeeded.

    The late report is dropped, but what the first run published is found at the end of the second: the job is
    COMPLETED, its page was written once, and the failure stays visible beside it.
    """
    with stage.open() as engine, stage.worker() as old:
        job = stage.submit(engine, "may freeze unchecked", "wait fail", kind="page")
        os.waitpid(old.pid, os.WUNTRACED)
        stage.lose_lock(old.pid)
        with stage.worker():
            stage.until_runs(job, 2)
            os.kill(old.pid, signal.SIGCONT)
            until(lambda: stage.log("stale_report_dropped") == 1)
            assert engine.job(job).state is JobState.RUNNING
            stage.go(job, 2)
            ended = engine.wait(job, 20)
    assert (ended.state, ended.reason, ended.number) == (JobState.COMPLETED, "published", 2)
    assert "planned" in str(ended.diagnostic)
    assert stage.written() == [job]
    stage.assert_sound()


def test_c07_a_crash_is_booked_on_the_dead_attempt_alone(stage: Stage) -> None:
    """Thread: a parent noted the crash of a child after the child's lock was gone, on a newer or a finished attempt.

    Two that settle the same death from the same list book it once; the newer attempt runs on, and ends as it ends.
    """
    with (
        stage.open() as engine,
        stage.worker() as dead,
        stage.hand("heir", alive=True) as heir,
        stage.open("work") as late,
    ):
        job = stage.submit(engine, "wait")
        stage.until_runs(job)
        token = token_of(engine, job)
        dead.kill()
        dead.wait()
        claims = []

        def overtake() -> None:
            heir.settle(token)
            claims.append(heir.claim())

        with at("recover.looked_up", overtake) as passed:
            assert late.work().recovered == 0
        assert "recover.looked_up" in passed
        running = engine.job(job)
        assert (running.state, running.number, running.interruptions) == (JobState.RUNNING, 2, 1)
        heir.end(claims[0].token)
        with pytest.raises(StaleToken):
            heir.settle(token)
        assert [(one.number, one.outcome) for one in engine.attempts(job)] == [(1, "interrupted"), (2, "completed")]
    stage.assert_sound()
