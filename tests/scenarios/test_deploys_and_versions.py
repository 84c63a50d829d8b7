"""Sections 3.12 and C19: old and new programs serve one workspace, and a job begins when what it needs is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import scenario_tasks
from scenario_stage import Stage, at, staying, until

import perenne
from perenne import App, Engine, JobState, Kind, sqlite, upkeep
from perenne.core import limits
from perenne.errors import SchemaTooNew, SchemaTooOld, StoreBusy
from perenne.store.sqlite import migration

S = JobState


def kind(name: str, version: int = 1, input_type: Any = int) -> Kind:
    return Kind(name, version, lambda context, input: f"{name}@{version}", input_type)


QUEUES = {"default": 1000}
OLD = App("deploys", [kind("report")], queues=QUEUES)
NEW = App("deploys", [kind("report"), kind("report", 2), kind("invoice")], queues=QUEUES)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage", OLD)


def opened(stage: Stage, app: App, access: Any = "work") -> Engine:
    return perenne.open(stage.root, app, access=access)


def test_c19_a_job_begins_after_what_it_needs_is_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread: a job was enqueued before the commit of the object it was about; a quick worker found nothing.

    Job and row of one transaction are there at once: a worker that takes each job the moment it can always finds the
    row, although the job was submitted first; and after a rollback neither is there.
    """
    monkeypatch.setattr(limits, "BLOCK_S", 20.0)
    found: list[Any] = []

    def look(context: perenne.Context, key: int) -> None:
        with shop.transaction() as tx:
            found.extend(tx.execute("select key from deploys_thing where key = ?", (key,)))

    needs = App("deploys", [Kind("look", 1, look, int)], migrations=["create table deploys_thing (key integer)"])
    root = Stage(tmp_path / "stage", needs).root
    with perenne.open(root, needs, access="work") as shop, staying(shop.worker(slots=2)):
        for key in range(20):
            with shop.transaction() as tx:
                job = tx.submit("look", key)
                tx.execute("insert into deploys_thing values (?)", (key,))
            if key % 5 == 0:
                shop.wait(job.job_id, 20)  # the worker is idle, and woken by the next one
        with pytest.raises(ZeroDivisionError):
            rolled_back(shop)
        until(lambda: shop.counts()[S.COMPLETED] == 20)
    assert sorted(found) == [(key,) for key in range(20)]


def rolled_back(shop: Engine) -> None:
    with shop.transaction() as tx:
        tx.submit("look", 99)
        tx.execute("insert into deploys_thing values (99)")
        raise ZeroDivisionError


def test_c62_an_old_program_leaves_what_it_does_not_know(stage: Stage) -> None:
    """Thread: an old process completed jobs of a kind that it did not know, without a word.

    A kind that is unknown, and a newer version of a known one, are never claimed: they wait as they are for a program
    that has them, and the doctor says which they are.
    """
    with opened(stage, NEW, "write") as engine:
        known, newer, unknown = (engine.submit(one, 1).job_id for one in NEW.kinds)
    with opened(stage, OLD) as old:
        assert old.work().ended == 1
        assert old.job(known).result == b'"report@1"'
        assert [(old.job(id).state, old.job(id).number) for id in (newer, unknown)] == [(S.QUEUED, 0)] * 2
    said = " ".join(finding.sentence for finding in upkeep.doctor(stage.root, OLD) if finding.name == "kinds")
    assert "report@2" in said
    assert "invoice@1" in said
    with opened(stage, NEW) as new:
        assert new.work().ended == 2
        assert [new.job(id).result for id in (newer, unknown)] == [b'"report@2"', b'"invoice@1"']


def test_c63_unknown_jobs_are_not_claimed_and_hold_nobody_up(stage: Stage) -> None:
    """Thread: a worker claimed a task that it had not registered, and threw; its attempts were used up.

    The claim asks for kind and version: of many jobs before it that a worker does not know no row changes, no attempt
    begins, and the one it knows is run.
    """
    with opened(stage, NEW, "write") as engine:
        for number in range(300):
            engine.submit(NEW.kind("invoice" if number % 2 else "report"), number, priority=5)
        mine = engine.submit(NEW.kind("report", 1), 1).job_id
    others = f"select * from job where id <> '{mine}' order by seq"
    before = stage.sql(others)
    with opened(stage, OLD) as old:
        assert old.work(slots=3).ended == 1
        assert old.job(mine).state is S.COMPLETED
    assert stage.sql(others) == before
    assert stage.sql("select count(*) from attempt") == [[1]]


def test_c64_a_renamed_kind_keeps_its_old_name_for_a_while(stage: Stage) -> None:
    """Thread: a task was renamed, and processes of before the deploy dropped what came under the new name.

    A program that gives its handler both names does the jobs of both; one of before does those it knows and leaves the
    others. Through a deploy in which both serve, each job is done once, and none is dropped.
    """
    renamed = App("deploys", [kind("report"), Kind("summary", 1, OLD.kind("report").handler, int)])
    with opened(stage, renamed, "write") as engine:
        before = [engine.submit("report", number).job_id for number in range(6)]
        after = [engine.submit("summary", number).job_id for number in range(6)]
    with opened(stage, OLD) as old, opened(stage, renamed) as new:
        with at("claim.committed", lambda: old.work()):
            new.work()
        old.work()
        assert [new.job(id).state for id in before + after] == [S.COMPLETED] * 12
        assert {len(new.attempts(id)) for id in before + after} == {1}


def test_c65_changed_code_does_not_loop_over_old_jobs(stage: Stage) -> None:
    """Thread: after a change of the code the replay of old executions failed, again and again.

    Under a new version the jobs of the old one wait for a program that has it. Where the version was forgotten, a
    stored input that no longer fits fails its job once, by name of the field, and never calls the handler.
    """
    with opened(stage, OLD, "write") as engine:
        job = engine.submit("report", 1).job_id
    with opened(stage, App("deploys", [kind("report", 2, dict[str, int])])) as newer:
        assert newer.work().ended == 0
        assert newer.job(job).state is S.QUEUED
    called: list[Any] = []
    forgotten = Kind("report", 1, lambda context, input: called.append(input), dict[str, int], max_attempts=50)
    with opened(stage, App("deploys", [forgotten])) as changed:
        assert changed.work().ended == 1
        failed = changed.job(job)
        assert (failed.state, failed.number, called) == (S.FAILED, 1, [])
        assert "Expected `object`, got `int`" in (failed.diagnostic or "")


BOOT = """
import sys
sys.path.insert(0, sys.argv[2])
import perenne, scenario_tasks
with perenne.open(sys.argv[1], scenario_tasks.app, access="work") as engine:
    scenario_tasks.note.enqueue(sys.argv[3])
    engine.work()
"""


def boot(root: Path, number: int, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BOOT, str(root), str(Path(__file__).parent), str(number)]
    return subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True)


def test_c66_first_boots_that_race_take_each_migration_once(tmp_path: Path) -> None:
    """Thread: two processes booted for the first time at once; both migrated, and the schema was left broken.

    Programs that come up together, one of them killed in the middle of a step, take each step once and are all
    served; what the dead one left half is not there.
    """
    stage = Stage(tmp_path / "stage", scenario_tasks.older)
    first = boot(stage.root, 0, PERENNE_CRASH_POINT="migrate.written:2")
    booted = [boot(stage.root, number) for number in range(1, 5)]
    ended = [process.communicate(timeout=90)[1] for process in (first, *booted)]
    assert [process.returncode for process in booted] == [0] * 4, ended
    assert first.returncode in (-9, 0)  # another one may have taken the second step before it
    assert stage.sql("select number from tasks_step order by number") == [[2], [3]]
    assert stage.sql("select version from app_schema") == [[3]]
    assert stage.sql("select count(*) from job where state = 'COMPLETED'")[0][0] >= 4
    stage.assert_sound()


def test_c67_an_older_program_leaves_a_newer_store_alone(tmp_path: Path) -> None:
    """Thread: an older binary rewrote the schema of a newer one.

    A ledger of a newer schema is opened by nobody, for nothing, and keeps every byte; the doctor still says what it
    is. Where only the application is older, it may look at the jobs and change nothing.
    """
    stage = Stage(tmp_path / "stage", scenario_tasks.app)
    tables = ("store", "queue", "app_schema", "sqlite_schema")
    before = stage.rows(*tables)
    for access in ("write", "work"):
        with pytest.raises(SchemaTooNew, match="at step 3, this app knows up to 1"):
            perenne.open(stage.root, scenario_tasks.older, access=access)  # type: ignore[arg-type]
    with perenne.open(stage.root, scenario_tasks.older, access="read") as looking:
        assert looking.jobs() == []
    assert stage.rows(*tables) == before
    newer = sqlite.open(stage.workspace.ledger, mode="write")
    newer.pragma("user_version", 1000)
    newer.close()
    for access in ("read", "write", "work"):
        with pytest.raises(SchemaTooNew, match="schema version 1000"):
            perenne.open(stage.root, scenario_tasks.app, access=access)  # type: ignore[arg-type]
    assert "1000" in " ".join(finding.sentence for finding in upkeep.doctor(stage.root, scenario_tasks.app))
    assert stage.rows(*tables) == before


def test_c68_a_migration_neither_blocks_nor_waits_for_live_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thread: a migration and the workers that were running locked each other out.

    The steps are taken between two transactions of a worker that is in the middle of a job, and it ends its job
    afterwards; behind somebody who keeps the lock they give up at their deadline, by name, and can be taken later.
    """
    stage = Stage(tmp_path / "stage", scenario_tasks.older)
    go_on, runs = tmp_path / "go", tmp_path / "runs"

    def wait(context: perenne.Context, input: int) -> None:
        runs.touch()
        until(go_on.exists)

    old = App("tasks", [Kind("wait", 1, wait, int)], migrations=scenario_tasks.STEPS[:1])
    with perenne.open(stage.root, old, access="work") as serving, staying(serving.worker()):
        job = serving.submit("wait", 1).job_id
        until(runs.exists)
        monkeypatch.setattr(migration, "PATIENCE_S", 0.2)
        with stage.holding("begin immediate"), pytest.raises(StoreBusy, match="held its write lock"):
            perenne.open(stage.root, scenario_tasks.app, access="work")
        assert stage.sql("select version from app_schema") == [[1]]
        assert upkeep.plan(stage.root) == []
        with pytest.raises(SchemaTooOld):
            perenne.open(stage.root, scenario_tasks.app)
        monkeypatch.undo()
        perenne.open(stage.root, scenario_tasks.app, access="work").close()
        assert stage.sql("select version from app_schema") == [[3]]
        go_on.touch()
        assert serving.wait(job, 20).state is S.COMPLETED
    stage.assert_sound()
