"""An application's own tables in the ledger's database: made by its numbered steps, and kept apart from ours."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from perenne import sqlite
from perenne.errors import SchemaTooNew, SchemaTooOld, StatementRefused
from perenne.store.apptables import AppTables
from perenne.store.sqlite import app_migration, driver
from perenne.store.sqlite.driver import SQLiteDriver

WORKSPACE = "82000000-0000-4000-8000-000000000001"
STEPS = (
    "create table demo_note (id integer primary key autoincrement, text text unique, about text);"
    "create index demo_by_about on demo_note (about); insert into demo_note (text) values ('first')",
    "alter table demo_note add column stars integer not null default 0; create view demo_best as "
    "select text from demo_note where stars > 3; create table demo_more (a references demo_note (id))",
    "alter table demo_note rename to demo_remark; alter table demo_more rename column a to remark; drop view demo_best",
)
LOOK = "select type, name, sql from sqlite_schema where name like 'demo%' order by name"


def opened(path: Path, steps: Any = STEPS, **options: Any) -> SQLiteDriver:
    tables = AppTables("demo_", tuple(steps))
    return SQLiteDriver(path, workspace=WORKSPACE, tables=tables, **{"may_migrate": True, **options})


def look(path: Path, sql: str = LOOK) -> list[Any]:
    connection = sqlite.open(path, mode="read")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_steps_are_taken_in_order_and_once(ledger_path: Path, tmp_path: Path) -> None:
    """From any step on, what is missing follows; the same tables as from nothing; opened again, nothing is done."""
    for known in range(len(STEPS) + 1):
        opened(ledger_path, STEPS[:known]).close()
        assert look(ledger_path, "select max(version) from app_schema") == [(known or None,)]
    opened(ledger_path).close()
    driver.create(tmp_path / "new.sqlite", workspace=WORKSPACE, now=1, tables=AppTables("demo_", STEPS))
    assert look(tmp_path / "new.sqlite") == look(ledger_path) != []
    assert look(ledger_path, "select text, stars from demo_remark") == [("first", 0)]


def test_the_plan_says_which_steps_are_missing(ledger_path: Path) -> None:
    """Each with its number and how it begins, or what it says about itself; nothing is changed by asking."""
    opened(ledger_path, STEPS[:1]).close()
    tables = AppTables("demo_", (*STEPS[:2], "-- Notes may be long.\nalter table demo_note add column long text"))
    steps = app_migration.plan(ledger_path, tables, driver.queries())
    assert [(step.number, step.name) for step in steps] == [(2, "demo_…"), (3, "demo_…")]
    assert steps[0].summary.startswith("alter table demo_note add column stars")
    assert steps[1].summary == "Notes may be long."
    assert look(ledger_path, "select version from app_schema") == [(1,)]
    with pytest.raises(SchemaTooNew):
        app_migration.plan(ledger_path, AppTables("demo_"), driver.queries())


def test_only_the_holder_of_the_lock_migrates(ledger_path: Path) -> None:
    """A short command finds the tables as they should be, or is refused and changes nothing; looking is always free."""
    opened(ledger_path, STEPS[:1]).close()
    before = look(ledger_path)
    with pytest.raises(SchemaTooOld, match="at step 1, this app has 3; start a worker"):
        opened(ledger_path, may_migrate=False)
    opened(ledger_path, mode="read").close()
    assert look(ledger_path) == before
    opened(ledger_path).close()
    with pytest.raises(SchemaTooNew, match="at step 3, this app knows up to 2"):
        opened(ledger_path, STEPS[:2])


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("create table note (a)", "asks for create table note"),
        ("alter table demo_note rename to note", "a name outside demo_"),
        ("create table demo_x (a references job (seq))", "refers to table job"),
        ("create table demo_x (a references job)", "refers to table job"),
        ("create index demo_i on job (state)", "asks for create index demo_i job"),
        ("create trigger demo_t after update on job begin delete from demo_note; end", "demo_t job"),
        ("create trigger t after update on demo_note begin delete from demo_note; end", "t demo_note"),
        ("create temp table demo_x (a)", "create temp table"),
        ("create virtual table demo_x using fts5 (a)", "create vtable"),
        ("create table demo_x as select state from job", "asks for read job state"),
        ("drop table job", "asks for drop table job"),
        ("drop index job_ripe", "asks for drop index"),
        ("alter table job add column demo_x", "asks for alter table main job"),
        ("update store set epoch = 7", "asks for update store"),
        ("insert into demo_note (text) select id from job", "asks for read job"),
        ("update sqlite_schema set sql = 'x'", "may not be modified"),
        ("pragma writable_schema = on", "asks for pragma"),
        ("commit", "asks for transaction"),
        ("insert or rollback into demo_note (text) values ('first')", "UNIQUE"),
        ("attach ':memory:' as demo_x", "asks for attach"),
        ("create table demo_x (a); create table demo_x (a)", "already exists"),
        ("nonsense", "syntax error"),
    ],
)
def test_a_step_that_reaches_further_is_refused_whole(ledger_path: Path, step: str, why: str) -> None:
    """Its number and its fault are said, nothing of it stands, and the steps before it do."""
    opened(ledger_path, STEPS[:1]).close()
    before = look(ledger_path, "select type, name, sql from sqlite_schema order by name")
    with pytest.raises(StatementRefused, match=r"migration 2 of demo_…") as refused:
        opened(ledger_path, [STEPS[0], f"insert into demo_note (text) values ('more'); {step}"])
    assert why in str(refused.value)
    assert look(ledger_path, "select type, name, sql from sqlite_schema order by name") == before
    assert look(ledger_path, "select text from demo_note") == [("first",)]
    assert look(ledger_path, "select version from app_schema") == [(1,)]


def test_a_new_ledger_with_a_wrong_step_is_not_made(tmp_path: Path) -> None:
    """A refused step leaves no file behind."""
    with pytest.raises(StatementRefused):
        driver.create(tmp_path / "l.sqlite", workspace=WORKSPACE, now=1, tables=AppTables("demo_", ("drop table job",)))
    assert list(tmp_path.iterdir()) == []


def killed_in_the_step(path: Path, at: str) -> None:
    from perenne import crashpoints

    crashpoints.arm({crashpoints.VARIABLE: at}, specimen=True)
    opened(path)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("point", ["migrate.written", "migrate.committed"])
def test_killed_in_a_step_the_next_one_goes_on(ledger_path: Path, tmp_path: Path, step: int, point: str) -> None:
    """A worker that dies in the middle of any step leaves the one before it; the next takes the rest, each once."""
    child = multiprocessing.get_context("fork").Process(
        target=killed_in_the_step, args=(ledger_path, f"{point}:{step}")
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    done = step - 1 if point == "migrate.written" else step
    assert look(ledger_path, "select coalesce(max(version), 0) from app_schema") == [(done,)]
    opened(ledger_path).close()
    assert look(ledger_path, "select text from demo_remark") == [("first",)]


def opens(path: Path) -> None:
    opened(path).close()
    os._exit(0)


def test_two_that_open_at_once_take_each_step_once(ledger_path: Path) -> None:
    """Workers that start together share the steps; none fails."""
    children = [multiprocessing.get_context("fork").Process(target=opens, args=(ledger_path,)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0, 0]
    assert look(ledger_path, "select text from demo_remark") == [("first",)]
