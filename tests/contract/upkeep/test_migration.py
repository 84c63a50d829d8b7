"""Schemas go forward only, whole steps at a time, once, from every version that was ever published."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne import sqlite
from perenne.core.states import JobState
from perenne.errors import SchemaTooNew, SchemaTooOld
from perenne.store import migrate
from perenne.store.reader import Reader
from perenne.store.sqlite import migration
from perenne.store.sqlite.driver import SQLiteDriver

WORKSPACE = "00000000-0000-4000-8000-000000000001"
PUBLISHED = range(1, migration.known())
SCHEMA = "select type, name, sql from sqlite_schema where sql is not null order by name"


def opened(path: Path) -> SQLiteDriver:
    return SQLiteDriver(path, workspace=WORKSPACE, may_migrate=True)


def version_of(path: Path) -> int:
    connection = sqlite.open(path, mode="write")
    try:
        return int(connection.pragma("user_version"))
    finally:
        connection.close()


def statements_of(path: Path) -> list[str]:
    """What SQLite is told while the ledger is brought up to date, from the first `begin immediate` on."""
    said: list[str] = []
    with traced(lambda sql: said.append(sql)):
        opened(path).close()
    return said[said.index("begin immediate") :]


class traced:
    """Every statement of every connection made meanwhile is shown before it runs; an error then stops it."""

    def __init__(self, see: Callable[[str], object]) -> None:
        self.see = see

    def __enter__(self) -> None:
        def hook(connection: apsw.Connection) -> None:
            connection.exec_trace = lambda cursor, sql, bindings: (self.see(sql.strip()), True)[1]

        apsw.connection_hooks.append(hook)

    def __exit__(self, *error: object) -> None:
        apsw.connection_hooks.pop()


def at_statement(number: int, act: Callable[[], object]) -> Callable[[str], None]:
    """Acts before the n-th statement from the first `begin immediate` on."""
    seen = 0

    def see(sql: str) -> None:
        nonlocal seen
        if seen or sql == "begin immediate":
            seen += 1
        if seen == number:
            act()

    return see


def test_schema_for_people_is_what_migrations_make(old_ledger: Any, tmp_path: Path) -> None:
    """`schema.sql` makes the same schema as the migrations, from nothing and from every published version."""
    to_read = apsw.Connection(":memory:")
    to_read.execute((migration.FOLDER.parent / "schema.sql").read_text(encoding="utf-8"))
    wanted = schema_of(to_read)
    assert len(wanted) > 15
    fresh = apsw.Connection(":memory:")
    migration.bring_up(fresh, tmp_path)
    assert schema_of(fresh) == wanted
    for version in PUBLISHED:
        path = old_ledger(version)
        opened(path).close()
        connection = sqlite.open(path, mode="read")
        assert schema_of(connection) == wanted
        connection.close()


def schema_of(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    """What was made, however it was spaced: a column that is added later stands on the line of another."""
    return [tuple(" ".join(str(part).split()) for part in row) for row in connection.execute(SCHEMA)]


@pytest.mark.parametrize("version", PUBLISHED)
def test_published_step_never_changes(version: int, old_ledger: Any) -> None:
    """The migrations up to a published version still make the schema that was published."""
    path = old_ledger(version)
    published = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    now = apsw.Connection(":memory:")
    for text in migrate.steps(migration.FOLDER)[:version]:
        now.execute(text)
    assert now.execute(SCHEMA).fetchall() == published.execute(SCHEMA).fetchall()
    published.close()


@pytest.mark.parametrize("version", PUBLISHED)
def test_published_ledger_opens_today(version: int, old_ledger: Any) -> None:
    """A ledger of a published version opens in today's with a job in every state, and nothing of it is lost."""
    path = old_ledger(version)
    before = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    tables = [name for (name,) in before.execute("select name from sqlite_schema where type = 'table'")]
    columns = {table: [row[1] for row in before.execute(f"pragma table_info({table})")] for table in tables}
    looks = {table: f"select {', '.join(names)} from {table}" for table, names in columns.items()}
    rows = {table: before.execute(look).fetchall() for table, look in looks.items()}
    before.close()
    driver = opened(path)
    try:
        assert Reader(driver).counts() == dict.fromkeys(JobState, 1)
        assert {job.state for job in Reader(driver).jobs()} == set(JobState)
    finally:
        driver.close()
    after = sqlite.open(path, mode="read")
    assert {table: after.execute(look).fetchall() for table, look in looks.items()} == rows
    after.close()


@pytest.mark.parametrize("version", PUBLISHED)
def test_plan_says_what_would_be_done_and_does_nothing(version: int, old_ledger: Any, trouble: Any) -> None:
    """The plan of an old ledger names each missing step and what it is for; no byte changes, and today's has none."""
    path = old_ledger(version)
    before = trouble.contents(path.parent)
    steps = migration.plan(path)
    assert trouble.contents(path.parent) == before
    assert [step.number for step in steps] == list(range(version + 1, migration.known() + 1))
    assert steps[-1] == migrate.Step(
        11,
        "artefacts",
        "The files that a job keeps, by name; their bytes lie under their digest, once for all who have the same.",
    )
    opened(path).close()
    assert migration.plan(path) == []


def test_every_migration_says_what_it_does() -> None:
    """Each migration opens with a sentence, which is its summary in the plan."""
    assert [step.number for step in migrate.plan(migration.FOLDER, 0)] == list(range(1, migration.known() + 1))
    assert all(step.summary.endswith(".") and step.name for step in migrate.plan(migration.FOLDER, 0))


def test_migration_without_a_sentence_is_refused(tmp_path: Path) -> None:
    """A migration that does not say what it does is a fault that is found when it is written."""
    (tmp_path / "0001_silent.sql").write_text("create table silent (n integer);\n")
    with pytest.raises(ValueError, match="opens with a comment"):
        migrate.plan(tmp_path, 0)


@pytest.mark.parametrize("version", PUBLISHED)
def test_killed_before_any_statement_of_a_migration(version: int, old_ledger: Any, trouble: Any) -> None:
    """Killed before any statement of a migration, the ledger is at a whole version, and the next opening ends it."""
    total = len(statements_of(old_ledger(version)))
    assert total >= 4 * (migration.known() - version)
    seen = set()
    for number in range(1, total + 1):
        path = old_ledger(version)

        def killed(path: Path = path, number: int = number) -> None:
            with traced(at_statement(number, lambda: os.kill(os.getpid(), signal.SIGKILL))):
                opened(path).close()

        assert trouble.dies(killed)
        seen.add(version_of(path))
        if version_of(path) < migration.known():
            with pytest.raises(SchemaTooOld):
                SQLiteDriver(path, workspace=WORKSPACE)
        opened(path).close()
        assert version_of(path) == migration.known()
        assert trouble.rows(path, "pragma integrity_check") == [("ok",)]
    assert seen >= set(range(version, migration.known()))


@pytest.mark.parametrize("version", PUBLISHED)
def test_error_before_any_statement_of_a_migration(version: int, old_ledger: Any) -> None:
    """An error before any statement of a migration leaves a whole version, and the next opening ends it."""
    for number in range(1, len(statements_of(old_ledger(version))) + 1):
        path = old_ledger(version)

        def fail() -> None:
            raise RuntimeError("injected")

        with pytest.raises(RuntimeError, match="injected"), traced(at_statement(number, fail)):
            opened(path).close()
        assert version_of(path) in range(version, migration.known() + 1)
        opened(path).close()
        assert version_of(path) == migration.known()


@pytest.mark.parametrize("point", ["migrate.written", "migrate.committed"])
def test_killed_at_the_points_of_a_migration(point: str, old_ledger: Any, trouble: Any) -> None:
    """Killed before its commit a step has not happened, killed after it it has; nothing stands between the two."""
    path = old_ledger(1)
    assert trouble.dies_at(point, lambda: bring_up(path))
    assert version_of(path) == (1 if point == "migrate.written" else 2)
    bring_up(path)
    assert version_of(path) == migration.known()


def bring_up(path: Path) -> None:
    connection = sqlite.open(path, mode="write", busy_s=30)
    migration.bring_up(connection, path)
    connection.close()


def raced(path: str, start: Any, taken: Any) -> None:
    """One of the processes that bring a ledger up to date at once; says how many steps it took."""
    start.wait(20)
    with traced(lambda sql: taken.put(sql) if "create index job_finished" in sql else None):
        bring_up(Path(path))


def test_processes_that_migrate_at_once_migrate_once(old_ledger: Any) -> None:
    """Processes that open an old ledger at the same moment all find it migrated, each step taken once (C66)."""
    spawn = multiprocessing.get_context("fork")
    for _ in range(3):
        path = old_ledger(1)
        start, taken = spawn.Barrier(4), spawn.Queue()
        racers = [spawn.Process(target=raced, args=(str(path), start, taken)) for _ in range(4)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(30)
        assert [racer.exitcode for racer in racers] == [0] * 4
        assert taken.get(timeout=5)
        assert taken.empty()
        assert version_of(path) == migration.known()


def test_newer_ledger_is_refused(old_ledger: Any, trouble: Any) -> None:
    """A ledger of a newer program is refused naming both versions, also by the plan, and no byte changes (C67)."""
    path = old_ledger(1)
    trouble.rows(path, "pragma user_version = 99")
    sqlite.open(path, mode="write").close()  # the -wal and -shm stand again
    before = trouble.contents(path.parent)
    for refused in (lambda: migration.plan(path), lambda: bring_up(path), lambda: opened(path)):
        with pytest.raises(SchemaTooNew, match=f"99.* {migration.known()}"):
            refused()
    assert trouble.contents(path.parent) == before
