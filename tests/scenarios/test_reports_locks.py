"""Reports about locks (type L): a lock lives exactly as long as its process, and no write leans on it alone.

Four reports are about session locks of PostgreSQL (36 to 39); their causes are rebuilt here with what this store has.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from scenario_stage import PROGRAM, Stage, staying, until

from perenne import JobState
from perenne.files.lock import Lock, holder


def test_r36_a_lost_connection_loses_no_job(stage: Stage) -> None:
    """Report: the connection of a worker was dropped, its advisory lock with it, and the job ran a second time beside.

    A worker whose connections to the store all failed in the middle of a job is still its owner: another one takes
    nothing, and the end is written over a new connection.
    """
    with stage.open("work") as engine:
        job = stage.submit(engine, "wait progress")
        worker = engine.worker()
        with staying(worker):
            stage.until_runs(job)
            pen = engine._driver._writer._pen  # type: ignore[attr-defined]
            before = pen._connection
            pen._suspect = True  # as an input or output error leaves it
            reading = engine._driver._reading  # type: ignore[attr-defined]
            with reading._lock:  # the snapshot is read in a thread of its own
                reading._drop()
            with stage.open("work") as other:
                for _ in range(5):
                    assert other.work().recovered == 0
            stage.go_all()
            assert engine.wait(job, 20).state is JobState.COMPLETED
            assert pen._connection is not before
        assert (engine.job(job).number, engine.job(job).progress_done) == (1, 1)
    assert len(stage.runs(job)) == 1


def test_r37_two_that_both_believe_to_be_owner_do_each_step_once(stage: Stage) -> None:
    """Report: the connection that held the lock dropped, two processes were owners, and each step was done twice.

    Of two workers that hold one job, the one that was replaced is stopped at its next step: it neither publishes nor
    writes progress nor ends the job.
    """
    with stage.open() as engine, stage.worker() as old:
        job = stage.submit(engine, "wait publish", "wait publish", kind="page")
        stage.until_runs(job, 1)
        stage.lose_lock(old.pid)
        with stage.worker() as new:
            assert stage.until_runs(job, 2) == new.pid
            stage.go(job, 1)
            until(lambda: stage.log("stale_report_dropped") == 1)
            assert stage.written() == []
            assert engine.job(job).state is JobState.RUNNING
            stage.go(job, 2)
            ended = engine.wait(job, 20)
    assert (ended.state, ended.number) == (JobState.COMPLETED, 2)
    assert stage.written() == [job]
    stage.assert_sound()


def test_r38_two_recoverers_settle_one_death_once(stage: Stage) -> None:
    """Report: the server ended a session, and two leaders worked at once.

    Nobody leads. While one process settles a dead worker, frozen or not, it holds that worker's lock, and a second one
    leaves it alone; when the first dies at it, the second settles, once.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "die", "")
        stage.dies()
        with stage.worker("stop_at=recover.looked_up") as first:
            os.waitpid(first.pid, os.WUNTRACED)
            with stage.open("work") as second:
                assert second.work().recovered == 0
                assert engine.job(job).state is JobState.RUNNING
                first.kill()
                first.wait()
                assert second.worker().run(stay=False).recovered == 1
        ended = engine.job(job)
        assert (ended.state, ended.interruptions, ended.number) == (JobState.COMPLETED, 1, 2)
        verbs = [line.verb for line in engine.history(job_id=job)]
    assert verbs == ["submit", "claim", "requeue_interrupted", "claim", "complete"]


_PARENT = f"""
import os, signal, subprocess, sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
import perenne, scenario_app

engine = perenne.open(sys.argv[1], scenario_app.alone, access="work")
forked = os.fork()
if forked == 0:
    signal.pause()
executed = subprocess.Popen(["sleep", "100"], close_fds=False)
print(forked, executed.pid, flush=True)
signal.pause()
"""


def test_r53_no_child_keeps_the_lock_of_a_dead_worker(stage_alone: Stage) -> None:
    """Report: children inherited the lock, and kept it after its owner had died; nobody could start again.

    A worker is killed while a child that it forked and a program that it started live on: the next worker has its lock
    at once.
    """
    stage = stage_alone
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(stage.root)], stdout=subprocess.PIPE, text=True)
    children: list[int] = []
    try:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        assert Lock.take(stage.workspace.worker_lock) is None
        parent.kill()
        parent.wait()
        assert all(os.path.exists(f"/proc/{child}") for child in children)
        with stage.open("work") as engine:
            job = stage.submit(engine)
            engine.work()
            assert engine.job(job).state is JobState.COMPLETED
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.communicate()


@pytest.mark.parametrize("alive", [True, False])
def test_r54_what_a_lock_file_says_decides_nothing(stage_alone: Stage, alive: bool) -> None:
    """Report: locks were folders without a process number, or files with one that had been given to another process:
    the lock was never free, or was stolen.

    A lock file left behind is free, though the process it names lives; one that is held is not, though the process it
    names is dead, or it names none.
    """
    stage = stage_alone
    dead = subprocess.Popen(["true"])
    dead.wait()
    named = os.getpid() if alive else dead.pid
    lock = stage.workspace.worker_lock
    lock.write_text(f"worker 11111111-1111-4111-8111-111111111111, pid {named}, started 1, boot x\n")
    os.utime(lock, (0, 0) if alive else None)
    (stage.workspace.owners_folder / "left.lock").write_text(f"pid {named}\n")
    with stage.worker() as working:
        assert f"pid {working.pid}," in holder(lock)
        lock.write_text(f"worker x, pid {named}, started 1, boot x\n")
        os.utime(lock, (0, 0))
        assert Lock.take(lock) is None
        working.kill()
        working.wait()
        taken = Lock.take(lock)
        assert taken is not None
        taken.release()
