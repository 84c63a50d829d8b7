"""Section 3.4, stuck in RUNNING: what a dead worker leaves is found, shown, steered and settled."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import scenario_app
from scenario_stage import DAY_S, LOOK, Stage, stepped, until

from perenne import JobState
from perenne.core.job import Job
from perenne.runtime import lookup
from perenne.runtime.clock import SYSTEM
from perenne.store.owners import Owner, Owners


def test_c20_no_pruning_and_no_namesake_hides_an_attempt(stage: Stage) -> None:
    """Thread: the row of a dead worker was pruned before its job, or a worker of the same name came back; either way
    the job stayed `doing` for ever.

    An owner is one life of one process: its row cannot go while its attempt stands, a purge passes the attempt by, and
    a namesake with the same number, boot and start changes nothing.
    """
    with stage.open() as engine, stage.worker() as dead:
        job = stage.submit(engine, "wait", "")
        stage.until_runs(job)
        id = stage.owner_of(dead.pid)
        dead.kill()
        dead.wait()
        [[pid, boot, started]] = stage.sql(f"select pid, boot_id, started from owner where id = '{id}'")
        stage.purge()
        assert engine.job(job).state is JobState.RUNNING
        pruned = subprocess.run(
            [sys.executable, "-c", LOOK, str(stage.workspace.ledger), f"delete from owner where id = '{id}'"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "FOREIGN KEY constraint failed" in pruned.stderr
        with stage.hand("namesake", alive=True) as namesake:
            Owners(namesake.driver).join(Owner("again", pid, boot, started), now=SYSTEM.now())
            with stage.open("work") as worker:
                assert worker.work().recovered == 1
        assert engine.job(job).state is JobState.COMPLETED


def test_c21_supervision_is_no_job(stage: Stage) -> None:
    """Thread: the job that retried stalled jobs was itself a job, and stalled.

    Recovery needs no place in a queue, no slot and no permission: it happens with the queue full, the workspace
    paused, and every slot of the living taken by a handler that never looks up.
    """
    with stage.open() as engine, stage.worker() as dead:
        full = stage.submit(engine, "wait", queue="narrow")
        stage.until_runs(full)
        engine.pause()
        dead.kill()
        dead.wait()
        with stage.open("work") as worker:
            assert (worker.work().recovered, worker.job(full).state) == (1, JobState.QUEUED)
        engine.resume()
        with stage.worker() as busy:
            deaf = stage.submit(engine, "deaf", priority=1)
            engine.cancel(full)
            assert stage.until_runs(deaf) == busy.pid
            with stage.worker() as dying:
                orphan = stage.submit(engine, "wait")
                assert stage.until_runs(orphan) == dying.pid
            until(lambda: engine.job(orphan).state is JobState.QUEUED)
            stage.go_all()
            assert engine.wait(orphan, 20).result == str(busy.pid).encode()
        assert [job.id for job in engine.jobs()] == [full, deaf, orphan], "nobody supervised by submitting"


def test_c22_one_truth_and_contradictions_are_listed(stage: Stage) -> None:
    """Thread: a job stood as `doing` for three weeks, while the business row it was about had long been repaired.

    What a person repaired in the other store is found at recovery, and the job ends with it, without a second run; and
    rows that contradict each other are listed by the doctor.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "publish", kind="page")
        stage.dies(PERENNE_CRASH_POINT="publish.begun")
        assert stage.written() == []
        scenario_app.write(lookup.identity_of(engine.job(job), stage.app.kind("page"), stage.root))
        with stage.open("work") as worker:
            worker.work()
        ended = engine.job(job)
        assert (ended.state, ended.reason, ended.number) == (JobState.COMPLETED, "recovered_after_publish", 1)
        assert len(stage.runs(job)) == len(stage.written()) == 1
        assert [finding.verdict for finding in stage.doctor("attempts")] == ["ok"]
        stage.sql("update attempt set ended_at = null, outcome = null")
        stage.sql("update queue set unfinished = 3 where name = 'other'")
        [attempts], [counters] = stage.doctor("attempts"), stage.doctor("counters")
    assert f"job {job}: it is COMPLETED, but its attempt 1 is open" in attempts.sentence
    assert "queue other: it says 3 unfinished jobs, there are 0" in counters.sentence


def test_c23_recovery_takes_moments_and_the_loss_is_shown(stage: Stage) -> None:
    """Thread: after a crash the jobs stayed locked for the four hours that the lock was said to last.

    A job of a killed worker runs in another live one about a second later at the latest; until somebody settles it,
    the doctor shows who was lost.
    """
    took_s = []
    with stage.open() as engine, stage.worker():
        for _ in range(3):
            holding = stage.submit(engine, "deaf", priority=1)  # keeps the one that stays busy meanwhile
            stage.until_runs(holding)
            with stage.worker() as dying:
                job = stage.submit(engine, "wait", "")
                assert stage.until_runs(job) == dying.pid
                stage.go(holding, 1)
                assert engine.wait(holding, 20).state is JobState.COMPLETED
                dying.kill()
                killed_at = time.monotonic()
                stage.until_runs(job, 2)
                took_s.append(time.monotonic() - killed_at)
        orphan = stage.submit(engine, "die")
        until(lambda: any(finding.verdict == "warn" for finding in stage.doctor("running")))
        [lost, _] = stage.doctor("running")
    assert f"job {orphan}, attempt 1: owner lost" in lost.sentence
    assert min(took_s) < 1.0, took_s
    assert max(took_s) < 10.0, took_s


def test_c24_a_stale_job_does_not_stand_in_its_own_way(stage: Stage) -> None:
    """Thread: a job of a dead worker counted against the very limit that should have let it be taken again.

    The place in a full queue and the key of uniqueness belong to the job, not to its attempt: it is taken again within
    them, and they are free when it ends.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "die", "", queue="narrow", unique_key="one")
        stage.dies()
        with stage.open("work") as worker:
            worker.work()
        assert (engine.job(job).state, engine.job(job).number) == (JobState.COMPLETED, 2)
        assert stage.submit(engine, queue="narrow", unique_key="one") != job
    stage.assert_sound()


def test_c25_sigterm_leaves_nothing_running(stage: Stage) -> None:
    """Thread: a worker that got SIGTERM went, and its tasks stayed RUNNING.

    Before it exits, each attempt is either back in its queue, unspent, or ended.
    """
    with stage.open() as engine, stage.worker("slots=2") as worker:
        boundary, deaf = stage.submit(engine, "wait"), stage.submit(engine, "deaf")
        stage.until_runs(boundary)
        stage.until_runs(deaf)
        worker.terminate()
        until(lambda: engine.job(boundary).state is JobState.QUEUED)
        assert worker.poll() is None
        stage.go(deaf, 1)
        assert worker.wait(30) == 0
        assert engine.counts() == {JobState.QUEUED: 1, JobState.COMPLETED: 1}
        suspended = engine.job(boundary)
        assert (suspended.reason, suspended.spent, suspended.number) == ("suspended", 0, 1)
    stage.assert_sound()


def test_c26_orphans_can_be_steered(stage: Stage) -> None:
    """Thread: after kill -9 the pending jobs of the kind were blocked, and neither cancel nor delete would touch them.

    With no worker alive, the orphan takes every wish and the others are cancelled at once; the next worker carries the
    wish out, runs the rest, and what ended can be started again and removed.
    """
    with stage.open() as engine:
        with stage.worker() as dead:
            orphan = stage.submit(engine, "wait")
            stage.until_runs(orphan)
            dead.kill()
            dead.wait()
        pending, unwanted = stage.submit(engine), stage.submit(engine)
        assert engine.cancel(unwanted).state is JobState.CANCELLED
        for wish in (engine.pause, engine.resume, engine.cancel):
            asked = wish(orphan)
            assert isinstance(asked, Job)
            assert asked.state is JobState.RUNNING
        with stage.open("work") as worker:
            worker.work()
        assert engine.job(pending).state is JobState.COMPLETED
        ended = engine.job(orphan)
        assert (ended.state, ended.reason) == (JobState.CANCELLED, "cancelled_after_worker_death")
        assert engine.requeue(orphan, "once more").state is JobState.QUEUED
        engine.cancel(orphan)
        assert stage.purge().jobs == 2, "all but the newest, which keeps the places from being given twice"
    stage.assert_sound()


def test_c27_a_duration_stops_at_the_last_proof_of_life(stage: Stage) -> None:
    """Thread: hours after a kill the duration of the execution was still counting.

    Five hours after the death the doctor says that the owner is lost and gives the seconds until its last proof of
    life, and recovery books no hour of it as active time.
    """
    with stage.open() as engine, stage.worker() as dead:
        job = stage.submit(engine, "progress wait", "")
        stage.until_runs(job)
        until(lambda: engine.job(job).progress_done == 1)
        dead.kill()
        dead.wait()
        later = stepped(5 * DAY_S / 24)
        [lost, _] = stage.doctor("running", clock=later)
        assert "owner lost since" in lost.sentence
        seconds = float(lost.sentence.rpartition("after ")[2].removesuffix(" s"))
        assert seconds < 60
        with stage.open("work", clock=later) as worker:
            assert worker.work().recovered == 1
        assert engine.job(job).active_ms < 60_000
        assert engine.attempts(job)[0].active_ms < 60_000


def test_c28_all_that_an_end_changes_changes_together(stage: Stage) -> None:
    """Thread: a worker was killed in the middle of a step; the message came back, the state of the step did not.

    Killed with every row of an end written and none committed, nothing has changed; killed right after the commit,
    everything has: job, attempt, history, place, notice, and the job that waits for it.
    """
    tables = ("job", "attempt", "history", "queue", "dependency", "notice")
    with stage.open() as engine:
        engine.listen("listener")
        job = stage.submit(engine, "wait", "", queue="narrow")
        waiting = stage.submit(engine, depends_on=[job], queue="other")
        engine.pause(queue="other")  # else the same transaction would also claim it
        with stage.worker(PERENNE_CRASH_POINT="acknowledge.written") as worker:
            stage.until_runs(job)
            before = stage.rows(*tables)
            stage.go(job, 1)
            assert worker.wait(30) == -signal.SIGKILL
        assert stage.rows(*tables) == before
        stage.assert_sound()
        stage.dies(PERENNE_CRASH_POINT="acknowledge.committed")
        after = stage.rows(*tables)
        assert engine.job(job).state is JobState.COMPLETED
        assert engine.job(waiting).state is JobState.QUEUED
        assert {queue.name: queue.unfinished for queue in engine.queues()}["narrow"] == 0
        assert (len(before["notice"]), len(after["notice"])) == (0, 1)
    stage.assert_sound()
