"""Section 3.8, resources: a slot lives and dies with its attempt, and what was used is measured."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import scenario_governed as governed
from scenario_governed import APP, MIB

import perenne
from perenne import Engine, JobState, testing
from perenne.store.reservations import Held

RULE = "\n[governor]\nload_ratio = 1000\ncpu_percent = 0\nmemory_percent = 0\nio_percent = 0\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace whose governor looks at our own work alone."""
    root = testing.workspace(tmp_path / "governed", APP)
    manifest = root / "workspace.toml"
    manifest.write_text(f"{manifest.read_text()}{RULE}memory_limit_bytes = {150 * MIB}\n")
    governed.Floor.now = governed.Floor.most = 0
    return root


def held(engine: Engine) -> list[Held]:
    return engine._ledger.accounts.look().held


def submitted(root: Path, count: int) -> list[str]:
    with perenne.open(root, APP) as engine:
        return [engine.submit("take", number).job_id for number in range(count)]


def test_c55_a_dead_workers_slot_comes_back_with_its_attempt(root: Path) -> None:
    """Thread: a worker died, and the limit it had taken stayed taken, so that nothing of its sort ever ran again.

    The slot is a row of the attempt: whoever settles the attempt frees it in the same transaction, and all jobs end.
    """
    ids = submitted(root, 3)
    testing.crash(root, APP, "claim.committed")
    with perenne.open(root, APP, access="work") as engine:
        assert len(held(engine)) == 1
        assert engine.work(slots=2).recovered == 1
        assert {engine.job(id).state for id in ids} == {JobState.COMPLETED}
        assert held(engine) == []


def test_c56_a_restart_does_not_bypass_the_limit(root: Path) -> None:
    """Thread: after a forced kill the new process began with an empty count, and the limit was passed.

    Nothing is counted in a process: two workers that start over a dead one's work never hold the slot at once.
    """
    ids = submitted(root, 8)
    testing.crash(root, APP, "run.executed")
    with perenne.open(root, APP, access="work") as one, perenne.open(root, APP, access="work") as other:
        workers = [threading.Thread(target=engine.work, kwargs={"slots": 3}) for engine in (one, other)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert {one.job(id).state for id in ids} == {JobState.COMPLETED}
        assert held(one) == []
    assert governed.Floor.most == 1


@pytest.mark.parametrize(("point", "running"), [("claim.written", 0), ("claim.committed", 1)])
def test_c57_the_slot_is_taken_as_the_job_begins(root: Path, point: str, running: int) -> None:
    """Thread: the slot was taken while the job still waited; the worker died between, and its schedule never ran again.

    Whatever the moment of a death, either the job is RUNNING and holds its slot, or neither.
    """
    submitted(root, 1)
    testing.crash(root, APP, point)
    with perenne.open(root, APP, access="work") as engine:
        assert len(engine.jobs(state=JobState.RUNNING)) == len(held(engine)) == running
        engine.work()
        assert [job.state for job in engine.jobs()] == [JobState.COMPLETED]


def test_c58_what_a_job_really_took_is_measured_and_bounds_the_next(root: Path) -> None:
    """Thread: a memory request was not enforced and leaked, and nobody saw what was used beside what was asked for.

    The reservation is tied to the attempt; what the kernel measured stands beside the estimate, and the next grant of
    such a job is smaller.
    """
    with perenne.open(root, APP, access="work") as engine:
        first = engine.submit("greedy", 1).job_id
        engine.work()
        second = engine.submit("greedy", 2).job_id
        (used,) = engine.view.resources().measured
        assert used.declared_item_bytes == MIB
        assert used.worst_item_bytes is not None
        assert used.worst_item_bytes > 20 * MIB
        engine.work()
        assert testing.result(engine, first) == 4
        assert testing.result(engine, second) < 4
        assert held(engine) == []
