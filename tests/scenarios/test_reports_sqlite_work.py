"""Reports about SQLite (type S) that are about work: claims, limits, locks, long logs, and where the file stands.

Full disks have a file of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from scenario_stage import PROGRAM, RETURNED, Stage, at, staying, until

import perenne
from perenne import JobState, filesystem
from perenne.errors import QueueFull, StaleToken, StoreBusy, UnsafeFilesystem
from perenne.store.sqlite import checkpoints, reading


def test_r08_two_runners_never_execute_one_job(stage: Stage) -> None:
    """Report: two runners on one SQLite file both executed a workflow.

    Four workers that are let loose on the same jobs at the same moment begin each of them once.
    """
    with stage.open() as engine:
        engine.pause()
        jobs = [stage.submit(engine) for _ in range(80)]
        with ExitStack() as workers:
            for _ in range(4):
                workers.enter_context(stage.worker("slots=2"))
            until(lambda: len(list(stage.workspace.wake_folder.iterdir())) >= 4)
            engine.resume()
            until(lambda: engine.counts() == {JobState.COMPLETED: 80}, 60)
        assert {len(stage.runs(job)) for job in jobs} == {1}
        assert {(job.number, job.spent) for job in engine.jobs()} == {(1, 1)}
        assert len({pid for job in jobs for _, pid in stage.runs(job)}) > 1, "they did work beside each other"


def test_r09_a_claim_keeps_every_other_claim_out(stage: Stage) -> None:
    """Report: two workers took the same task, for an isolation level had been mistaken for an immediate transaction.

    While one claim is written and not committed, no other can even begin; afterwards the job is gone for it.
    """
    with stage.open() as engine, stage.hand("one") as one, stage.hand("two") as two:
        stage.submit(engine)
        two.driver._writer._busy_s = 0.1  # type: ignore[union-attr]
        refusals: list[StoreBusy] = []

        def race() -> None:
            with pytest.raises(StoreBusy) as raised:
                two.claim()
            refusals.append(raised.value)

        with at("claim.written", race):
            claimed = one.claim()
        assert claimed is not None
        assert refusals[0].holders == [os.getpid()]
        assert two.claim() is None
    stage.assert_sound()


def test_r10_taking_a_job_deletes_nothing(stage: Stage) -> None:
    """Report: a task was deleted when it was taken, and lost when its worker died.

    While it runs, after its worker died, and after it has ended, the job can be looked at with its input, each attempt
    and its result; it goes only when somebody purges it.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "wait", "")
        stage.submit(engine)  # the newest job stays at a purge
        with stage.worker() as worker:
            stage.until_runs(job)
            stage.purge()
            assert engine.job(job).state is JobState.RUNNING
            worker.kill()
            worker.wait()
        stage.purge()
        assert b"wait" in engine.job(job).input
        with stage.open("work") as next_one:
            next_one.work()
        assert engine.job(job).result == str(os.getpid()).encode()
        assert [attempt.outcome for attempt in engine.attempts(job)] == ["interrupted", "completed"]
        assert stage.purge().jobs == 1


def test_r11_one_due_job_wakes_many_and_is_run_by_one(stage: Stage) -> None:
    """Report: with an SQLite store every worker ran the job when its time came.

    Five idle workers that are all woken for one job, ten times over, run it once each time.
    """
    with stage.open() as engine, ExitStack() as workers:
        for _ in range(5):
            workers.enter_context(stage.worker())
        until(lambda: len(list(stage.workspace.wake_folder.iterdir())) >= 5)
        jobs = []
        for _ in range(10):
            jobs.append(stage.submit(engine))
            assert engine.wait(jobs[-1], 20).state is JobState.COMPLETED
    assert {len(stage.runs(job)) for job in jobs} == {1}


_RACER = f"""
import sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
import perenne, scenario_app
from perenne.errors import QueueFull

plan = {{"folder": sys.argv[2], "attempts": [""]}}
with perenne.open(sys.argv[1], scenario_app.app) as engine:
    engine.submit("act", plan)
    print("warm", flush=True)
    for line in sys.stdin:
        try:
            print(engine.submit("act", plan, queue="narrow").job_id, flush=True)
        except QueueFull:
            print("full", flush=True)
"""


@contextmanager
def racer(stage: Stage) -> Iterator[subprocess.Popen[str]]:
    """A process that has written once, and submits to the narrow queue whenever it is sent a line."""
    command = [sys.executable, "-c", _RACER, str(stage.root), str(stage.marks)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "warm\n"
        yield process
    finally:
        process.communicate(timeout=30)


def test_r12_a_limit_holds_against_warm_racers(stage: Stage) -> None:
    """Report: five of eight claimants came through a limit of one; cold connection pools had hidden it in every test.

    Of eight processes that are warm and start at once, one gets the one place, round after round.
    """
    with stage.open() as engine, ExitStack() as racers:
        processes = [racers.enter_context(racer(stage)) for _ in range(8)]
        for _ in range(10):
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("go\n")
            answers = [process.stdout.readline().strip() for process in processes if process.stdout]
            [winner] = [answer for answer in answers if answer != "full"]
            assert answers.count("full") == 7
            with pytest.raises(QueueFull):
                stage.submit(engine, queue="narrow")
            engine.cancel(winner)
    stage.assert_sound()


def test_r13_a_starved_worker_is_not_dead(stage: Stage) -> None:
    """Report: heartbeats failed with `database is locked`, and live workers were declared dead.

    A worker that cannot write for as long as it may wait stays the owner of its job, says so once, and records the end
    as soon as it can; its life hangs on no write.
    """
    with stage.open("work") as engine, stage.open("read") as reader:
        engine._driver._writer._busy_s = 0.1  # type: ignore[attr-defined]
        job = stage.submit(engine, "wait")
        worker = engine.worker()
        with staying(worker):
            stage.until_runs(job)
            with stage.holding("begin immediate"):
                stage.go(job, 1)
                until(lambda: stage.log("store_waits") == 1)
                assert [finding.verdict for finding in stage.doctor("owners")] == ["ok"]
            assert reader.job(job).state is JobState.RUNNING
            engine._driver._writer._busy_s = 5.0  # type: ignore[attr-defined]
            with stage.open("work") as rescuer:
                assert rescuer.work().recovered == 0
            assert engine.wait(job, 20).state is JobState.COMPLETED
        assert engine.job(job).number == 1
        assert stage.log("store_waits") == 1


def test_r14_no_reader_of_ours_grows_old_and_others_are_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report: one pinned reader let the log grow to 1.7 and to 115 GB.

    A read of ours that takes too long is ended and says so; a foreign one that goes on is named by the doctor, once
    the log has passed its limit, beside that limit.
    """
    monkeypatch.setattr(reading, "MOST_READ_S", 0.05)
    with stage.open() as engine:
        stage.submit(engine)
        endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"

        def look(view: object) -> None:
            view.connection.execute(endless).fetchall()  # type: ignore[attr-defined]

        with pytest.raises(StoreBusy, match=r"took longer than 0\.05 s and was ended"):
            engine._driver.read(look)  # type: ignore[arg-type]
        assert engine.counts() == {JobState.QUEUED: 1}
        with stage.holding("begin") as process:
            assert [finding.verdict for finding in stage.doctor("wal")] == ["ok"]
            monkeypatch.setattr(checkpoints, "SOFT_BYTES", 1000)
            [wal] = stage.doctor("wal")
            assert re.search(
                rf"limits are [\d,]+ and [\d,]+; views are held by .*process {process.pid} \(", wal.sentence
            )


def fingerprint(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a folder, by what would show that it was touched."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes()) for path in files}


def mounted_as(monkeypatch: pytest.MonkeyPatch, type_name: str) -> None:
    """Let the kernel's list say that every mount is of this type; the lookup of the mount stays real."""
    real = filesystem._mounts

    def mounts(mountinfo: str) -> dict[int, filesystem._Mount]:
        return real(re.sub(r" - \S+ ", f" - {type_name} ", mountinfo))

    monkeypatch.setattr(filesystem, "_mounts", mounts)


def assert_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch, type_name: str) -> None:
    """On this file system nothing opens or is made, and not a byte of what is there changes."""
    before = fingerprint(stage.root)
    mounted_as(monkeypatch, type_name)
    for access in ("read", "write", "work"):
        with pytest.raises(UnsafeFilesystem, match=rf"stands on {re.escape(type_name)} .*move it to a local disk"):
            stage.open(access)
    with pytest.raises(UnsafeFilesystem):
        perenne.create(stage.folder / "new", stage.app, name="new")
    monkeypatch.undo()
    assert not (stage.folder / "new").exists()
    assert fingerprint(stage.root) == before


@pytest.mark.parametrize("type_name", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"])
def test_r17_a_network_file_system_is_refused_untouched(
    stage: Stage, type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report: write-ahead logs on network mounts corrupted the database after kills, or with two hosts.

    There a workspace is neither made nor opened, by name of the file system, and no file is touched.
    """
    assert_refused(stage, monkeypatch, type_name)


@pytest.mark.parametrize("type_name", ["virtiofs", "fakeowner", "grpcfuse", "osxfs", "fuse"])
def test_r18_a_bridge_to_another_system_is_refused(
    stage: Stage, type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report: on folders shared into a virtual machine the database was corrupt within a minute.

    Bridges to a host are refused as network mounts are.
    """
    assert_refused(stage, monkeypatch, type_name)


@pytest.mark.parametrize("type_name", ["9p", "drvfs", "vboxsf"])
def test_r19_a_windows_folder_gives_one_clear_sentence(
    stage: Stage, type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report: with a Windows folder mounted in its container the program failed to open shared memory, again and again.

    The refusal comes before any open, names folder, file system and mount, and says what to do; a worker started by a
    service ends with it at once.
    """
    assert_refused(stage, monkeypatch, type_name)
    mounted_as(monkeypatch, type_name)
    with pytest.raises(UnsafeFilesystem) as raised:
        stage.open("work")
    assert raised.value.filesystem == type_name
    assert raised.value.folder == str(stage.workspace.own_folder)
    assert raised.value.mount_point
    assert "allow_filesystems" in str(raised.value)
    monkeypatch.undo()
    assert not list(stage.workspace.owners_folder.iterdir()), "nor does it leave the lock of an owner"


def test_r46_a_worker_that_cannot_beat_keeps_its_job(stage: Stage) -> None:
    """Report: beats were missed because the next one was reckoned after the work, and jobs were taken away.

    A worker has no beat to miss: one whose handler keeps every other thread of its process from running is looked at
    by others as often as they like, and keeps its job.
    """
    os.mkfifo(stage.marks / "hog")
    with stage.open() as engine, stage.worker() as starved, stage.worker() as other:
        job = stage.submit(engine, "hog")
        stage.until_runs(job)
        hogged = dict(stage.runs(job))[1]
        free = ({starved.pid, other.pid} - {hogged}).pop()
        for _ in range(30):
            done = engine.wait(stage.submit(engine), 20)
            assert done.result == str(free).encode()
        assert (engine.job(job).state, engine.job(job).number) == (JobState.RUNNING, 1)
        with (stage.marks / "hog").open("w") as pipe:
            pipe.write("!")
        assert engine.wait(job, 20).result == str(hogged).encode()


def test_r56_a_repeated_report_counts_once(stage: Stage) -> None:
    """Report: the reference counted tokens with each repeated `done`, took long jobs back by their start time, and used
    a shared mount.

    A report that is sent three times is booked once: time, attempt, place, notice and history. (For the long job see
    C05, for the mount R17.)
    """
    with stage.open() as engine, stage.hand() as hand:
        engine.listen("listener")
        stage.submit(engine, queue="narrow")
        claim = hand.claim()
        assert claim is not None
        hand.end(claim.token, RETURNED, active_ms=700)
        before = stage.rows()
        for _ in range(2):
            with pytest.raises(StaleToken):
                hand.end(claim.token, RETURNED, active_ms=700)
        assert stage.rows() == before
        job = engine.job(claim.job.id)
        assert (job.active_ms, job.spent, len(before["notice"])) == (700, 1, 1)
        assert {queue.name: queue.unfinished for queue in engine.queues()}["narrow"] == 0
