"""Section 3.8 and the reports on full disks: on a small disk of its own, really filled, with a real worker on it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from scenario_disk import Disk, on_a_small_disk
from scenario_stage import staying, together, until

from perenne import JobState
from perenne.errors import DiskLow, StaleToken
from perenne.runtime import worker as working
from perenne.store import space
from perenne.surfaces.faults import fault_of

SIZE_BYTES = 16 << 20
# Below the floor, which is one hundredth of so small a disk, and enough for what runs to be recorded.
LITTLE_BYTES = 100 << 10
PATIENCE_S = 0.05


@pytest.fixture(autouse=True)
def seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The free space is asked each time, and a worker that waits for some tries twenty times a second."""
    monkeypatch.setattr(space, "FRESH_S", 0.0)
    monkeypatch.setattr(working, "PATIENCE_S", PATIENCE_S)


def counted(worker: Any) -> list[str]:
    """A line for each turn that the worker took: what it raised, or nothing."""
    turns: list[str] = []
    turn = worker._ledger.turn

    def take(*values: Any, **named: Any) -> Any:
        try:
            answer = turn(*values, **named)
        except Exception as error:
            turns.append(type(error).__name__)
            raise
        turns.append("")
        return answer

    worker._ledger.turn = take
    return turns


def test_c46_a_full_disk_is_a_state(tmp_path: Path) -> None:
    """Thread: on a full disk the claim was tried each second, and one user's machine sent 95,000 reports.

    Below the floor nothing is claimed while what runs ends as ever, the doctor says why, and when there is space again
    the worker goes on by itself.
    """

    def scene(disk: Disk) -> None:
        stage = disk.stage
        with stage.open("work") as engine:
            running, waiting = stage.submit(engine, "wait"), stage.submit(engine)
            worker = engine.worker()
            turns = counted(worker)
            with staying(worker):
                stage.until_runs(running)
                disk.fill(LITTLE_BYTES)
                stage.go(running, 1)
                until(lambda: engine.job(running).state is JobState.COMPLETED)
                seen = len(turns)
                until(lambda: len(turns) >= seen + 5)
                assert (engine.job(waiting).state, engine.job(waiting).number) == (JobState.QUEUED, 0)
                [finding] = stage.doctor("free space")
                assert finding.verdict == "bad"
                assert "no job is taken or started" in finding.sentence
                disk.give_back()
                until(lambda: engine.job(waiting).state is JobState.COMPLETED)
        stage.assert_sound()

    on_a_small_disk(tmp_path / "scene", SIZE_BYTES, scene)


def test_c46_a_full_disk_gives_one_alert(tmp_path: Path) -> None:
    """Thread: as above; the other extreme is silence.

    A worker that stops claiming because the disk is low leaves exactly one line that says so.
    """

    def scene(disk: Disk) -> int:
        stage = disk.stage
        with stage.open("work") as engine:
            stage.submit(engine)
            disk.fill(LITTLE_BYTES)
            worker = engine.worker()
            turns = counted(worker)
            with staying(worker):
                until(lambda: len(turns) >= 3)
                disk.give_back()
                until(lambda: engine.counts() == {JobState.COMPLETED: 1})
        return stage.log("store_waits")

    assert on_a_small_disk(tmp_path / "scene", SIZE_BYTES, scene) == 1


def test_c49_the_floor_keeps_room_to_end_cancel_and_purge(tmp_path: Path) -> None:
    """Thread: writes were taken until the disk was full, and then there was no room to roll back or to find out why.

    Below the floor a submit is refused (HTTP 507) before anything is written, while ends, cancels, pauses and a purge
    go on. With the last byte taken by others an end is recorded or refused whole, and everything can be looked at.
    """

    def scene(disk: Disk) -> None:
        stage = disk.stage
        with stage.open() as engine, stage.hand() as hand:
            jobs = [stage.submit(engine) for _ in range(40)]
            disk.fill(LITTLE_BYTES)
            before = stage.sql("select count(*), max(seq) from job")
            for refused in (
                lambda: stage.submit(engine),
                lambda: engine.submit_many([engine.request("act", stage.plan()) for _ in range(3)]),
            ):
                with pytest.raises(DiskLow) as raised:
                    refused()
                assert fault_of(raised.value).http_status == 507
            assert stage.sql("select count(*), max(seq) from job") == before
            assert hand.claim() is None
            disk.give_back()
            ending, waiting = hand.claim(), hand.claim()
            assert ending is not None
            assert waiting is not None
            disk.fill(LITTLE_BYTES)
            assert hand.end(ending.token)[0].state is JobState.COMPLETED
            assert engine.cancel(jobs[10]).state is JobState.CANCELLED
            engine.pause()
            engine.resume()
            assert stage.purge().jobs == 2
            disk.fill()
            before = stage.sql("select * from job")
            with contextlib.suppress(DiskLow):
                hand.end(waiting.token)
                before = stage.sql("select * from job")
            stage.assert_sound()
            assert stage.sql("select * from job") == before
            assert [finding.verdict for finding in stage.doctor("attempts")] == ["ok"]
            assert engine.history(job_id=waiting.job.id)
            disk.give_back()
            with contextlib.suppress(StaleToken):
                hand.end(waiting.token)
            assert engine.job(waiting.job.id).state is JobState.COMPLETED
            stage.submit(engine)
        stage.assert_sound()

    on_a_small_disk(tmp_path / "scene", SIZE_BYTES, scene)


def test_c50_a_full_disk_answers_every_caller(tmp_path: Path) -> None:
    """Thread: a call that met a full store failed inside, no reply was sent, and the caller waited for ever.

    Of many callers at one moment each gets its typed refusal, whether the floor refuses it or the disk itself.
    """

    def scene(disk: Disk) -> None:
        stage = disk.stage
        with stage.open() as engine, stage.holding("begin"):
            stage.submit(engine)
            for at_the_floor in (True, False):
                disk.fill(LITTLE_BYTES if at_the_floor else 0)
                # Asked never again: the callers come through the floor and meet the disk itself.
                space.FRESH_S = 0.0 if at_the_floor else 1e9
                if not at_the_floor:
                    engine._driver._gauge._found = space.Space(1 << 40, 0)  # type: ignore[attr-defined]
                    engine._driver._gauge._stale_at = float("inf")  # type: ignore[attr-defined]
                answers = together(*[lambda: stage.submit(engine)] * 16)
                assert {type(answer) for answer in answers} == {DiskLow}, answers
            assert len(engine.jobs()) == 1
        stage.assert_sound()

    on_a_small_disk(tmp_path / "scene", SIZE_BYTES, scene)


def end_on_a_full_disk(disk: Disk) -> int:
    """Let a job end while not one byte can be written, then give space back; how many lines spoke of it."""
    stage = disk.stage
    with stage.open("work") as engine, stage.holding("begin"):  # a reader keeps the log from making room
        job = stage.submit(engine, "wait")
        worker = engine.worker(slots=2)
        turns = counted(worker)
        with staying(worker):
            stage.until_runs(job)
            disk.fill()
            stage.go(job, 1)
            until(lambda: turns.count("DiskLow") >= 1)
            started = time.monotonic()
            until(lambda: turns.count("DiskLow") >= 11)
            assert time.monotonic() - started >= 10 * PATIENCE_S * 0.9
            assert engine.job(job).state is JobState.RUNNING
            disk.give_back()
            assert engine.wait(job, 20).state is JobState.COMPLETED
        assert engine.job(job).number == worker.report.ended == 1
    stage.assert_sound()
    return stage.log("store_waits")


def test_r15_a_worker_on_a_full_disk_backs_off_and_comes_back(tmp_path: Path) -> None:
    """Report: on a full disk the worker polled each second and sent 95,000 error reports.

    An end that cannot be written is kept and tried again at a steady pace, said at most once, and written when there
    is space again, by the same worker.
    """
    assert on_a_small_disk(tmp_path / "scene", SIZE_BYTES, end_on_a_full_disk) <= 1


def test_r15_the_one_alarm_is_not_lost_on_the_full_disk(tmp_path: Path) -> None:
    """Report: as above; the other extreme is silence.

    Of a spell in which nothing could be written exactly one line is left.
    """
    assert on_a_small_disk(tmp_path / "scene", SIZE_BYTES, end_on_a_full_disk) == 1


def test_r16_a_failing_job_is_queued_again_after_the_disk_was_full(tmp_path: Path) -> None:
    """Report: what happens on a full disk was not defined, and queueing a failed job again crashed the process.

    A job that fails while nothing can be written waits for its next attempt as soon as there is space, in a worker
    that never ended; new jobs are refused meanwhile.
    """

    def scene(disk: Disk) -> None:
        stage = disk.stage
        with stage.open("work") as engine, stage.holding("begin"):
            job = stage.submit(engine, "wait fail", "")
            worker = engine.worker()
            turns = counted(worker)
            with staying(worker):
                stage.until_runs(job)
                disk.fill()
                stage.go(job, 1)
                until(lambda: turns.count("DiskLow") >= 2)
                with pytest.raises(DiskLow):
                    stage.submit(engine)
                disk.give_back()
                ended = engine.wait(job, 20)
            assert (ended.state, ended.number, ended.failures) == (JobState.COMPLETED, 2, 1)
        stage.assert_sound()

    on_a_small_disk(tmp_path / "scene", SIZE_BYTES, scene)
