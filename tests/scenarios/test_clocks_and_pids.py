"""Section 3.7, clocks and process numbers: the clock only says when a job is due, a number only whom to ask."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import scenario_app
from scenario_stage import DAY_S, PROGRAM, Stage, staying, stepped, until

from perenne import JobState
from perenne.core import events
from perenne.runtime import worker as working
from perenne.runtime.clock import SYSTEM, Clock


def test_c37_clocks_that_disagree_take_nothing_away(stage: Stage) -> None:
    """Thread: nodes whose clocks disagreed declared each other dead; one that had been frozen came back with its lock.

    A frozen worker keeps its job before rescuers ten years ahead and ten years behind, and ends it when it thaws.
    """
    with stage.open() as engine, stage.worker() as frozen:
        job = stage.submit(engine, "wait")
        stage.until_runs(job)
        os.kill(frozen.pid, signal.SIGSTOP)
        os.waitpid(frozen.pid, os.WUNTRACED)
        for years in (10, -10, 0):
            with stage.open("work", clock=stepped(years * 365 * DAY_S)) as rescuer:
                assert rescuer.work().recovered == 0
        os.kill(frozen.pid, signal.SIGCONT)
        stage.go_all()
        assert engine.wait(job, 20).result == str(frozen.pid).encode()
    assert len(stage.runs(job)) == 1


def test_c38_a_clock_set_back_freezes_no_job(stage: Stage) -> None:
    """Thread: the clock was set back, and the scheduler did nothing until it had caught up.

    A job that is due stays due, and one submitted by the new clock is due as well.
    """
    with stage.open() as engine, stage.open(clock=stepped(-DAY_S)) as set_back:
        jobs = [stage.submit(engine), stage.submit(set_back)]
        with stage.open("work", clock=stepped(-DAY_S)) as worker:
            worker.work()
        assert {engine.job(job).state for job in jobs} == {JobState.COMPLETED}


def test_c38_a_wait_is_not_prolonged_by_a_clock_set_back(stage: Stage) -> None:
    """Thread: as above, for a job that waits for its next attempt.

    A wait of a millisecond before the next attempt does not become a wait of a day.
    """
    with stage.open() as engine, stage.hand() as hand:
        job = stage.submit(engine)
        claim = hand.claim()
        assert claim is not None
        hand.end(claim.token, events.Raised("planned", retryable=True, backoff=scenario_app.SOON))
        assert engine.job(job).state is JobState.RETRY_WAIT
        with stage.open("work", clock=stepped(-DAY_S)) as worker:
            worker.work()
        assert engine.job(job).state is JobState.COMPLETED


def test_c38_a_clock_set_forward_is_noticed_by_who_sleeps(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread: as above, the other way: nobody tells a sleeper that its hour has come.

    An idle worker looks at the clock again within its longest sleep, and runs what has become due.
    """
    monkeypatch.setattr(working, "LONGEST_SLEEP_S", 0.1)
    ahead_us = 0
    clock = Clock(lambda: SYSTEM.now() + ahead_us, SYSTEM.monotonic)
    with stage.open("work", clock=clock) as engine:
        job = stage.submit(engine, not_before=datetime.now(UTC) + timedelta(hours=1))
        worker = engine.worker()
        with staying(worker):
            until(lambda: worker._slots.listener_sleeps)
            ahead_us = 2 * 3600 * 1_000_000
            until(lambda: engine.job(job).state is JobState.COMPLETED)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="NOT RUN: needs root and unshare for a pid namespace"
)
def test_c41_a_reused_process_number_proves_no_life(stage: Stage) -> None:
    """Thread: in a container every process got the same number, so a dead one's lock seemed held for ever.

    A worker that was process 1 of its container is taken for dead when its lock is free, though a process 1 lives here:
    by one that starts, and by one that waited for it.
    """
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, str(PROGRAM)]
    with stage.open() as engine:
        for stays in (False, True):
            process = subprocess.Popen([*command, str(stage.root)], stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            job = stage.submit(engine, "wait", "")
            assert stage.until_runs(job) == 1
            assert os.path.exists("/proc/1")
            if not stays:
                process.kill()
                process.wait()
                until(lambda: stage.doctor("owners")[0].verdict == "warn")
                with stage.open("work") as later:
                    assert later.work().recovered == 1
            else:
                with stage.worker():
                    until(lambda: len(stage.sql("select id from owner where left_at is null")) == 2)
                    process.kill()
                    process.wait()
                    engine.wait(job, 20)
            assert (engine.job(job).state, engine.job(job).number) == (JobState.COMPLETED, 2)


def test_c42_supervisors_do_not_pile_up(stage_alone: Stage) -> None:
    """Thread: with few process numbers and a starved heartbeat, one supervisor after the other believed to be alone.

    Of many that start together one works; the others are refused, also while it is frozen and whatever its lock file
    says; when it is dead the next one works, whatever the file says.
    """
    stage = stage_alone
    lock = stage.workspace.worker_lock
    starting = [stage.starting() for _ in range(5)]
    processes = [one.__enter__() for one in starting]
    try:
        answers = {process: process.stdout.readline().strip() for process in processes if process.stdout}
        assert sorted(answers.values()) == ["ready", *["worker_already_runs"] * 4]
        holder = next(process for process, answer in answers.items() if answer == "ready")
        os.kill(holder.pid, signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)
        for text in ("", f"worker x, pid {os.getpid()}, started 1, boot y\n"):
            lock.write_text(text)
            with stage.starting() as refused:
                assert refused.stdout is not None
                assert refused.stdout.readline() == "worker_already_runs\n"
        holder.kill()
        holder.wait()
        lock.write_text(f"worker x, pid {os.getpid()}, started 1, boot y\n")
        with stage.worker("once=yes") as next_one:
            assert next_one.wait(30) == 0
    finally:
        for one in starting:
            one.__exit__(None, None, None)
