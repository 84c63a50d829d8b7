"""A store is opened only when it is this workspace's and of this version; a refusal leaves every byte as it was."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne import sqlite
from perenne.core.job import OnDependency, Outcome
from perenne.core.states import JobState
from perenne.errors import SchemaTooNew, SchemaTooOld, StorageError, StoreExists, StoreForeign, StoreMissing
from perenne.store import migrate
from perenne.store.sqlite import driver, migration, opening

WORKSPACE = "82000000-0000-4000-8000-000000000001"
Look = Callable[[Path], dict[str, bytes]]


def changed(path: Path, statement: str) -> None:
    connection = sqlite.open(path, mode="write")
    connection.execute(statement)
    connection.close()


def foreign(path: Path, journal: str) -> None:
    """A file of another program, as that program's last connection leaves it."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", journal)
    connection.execute("create table note (text)")
    connection.execute("insert into note values ('mine')")
    connection.close()


REFUSALS: dict[str, tuple[Callable[[Path], Any], type[StorageError]]] = {
    "of another workspace": (
        lambda path: changed(path, "update store set workspace = '82000000-0000-4000-8000-000000000002'"),
        StoreForeign,
    ),
    "of no workspace": (lambda path: changed(path, "delete from store"), StoreForeign),
    "of another program": (lambda path: changed(path, "pragma application_id = 7"), StoreForeign),
    "newer": (lambda path: changed(path, "pragma user_version = 1000"), SchemaTooNew),
    "older": (lambda path: changed(path, "pragma user_version = 1"), SchemaTooOld),
    "missing": (lambda path: [file.unlink() for file in path.parent.iterdir()], StoreMissing),
    "empty": (lambda path: path.write_bytes(b""), StoreForeign),
    "no database": (lambda path: path.write_bytes(b"x" * 5000), StoreForeign),
}


def as_killed(path: Path, folder: Path, change: Callable[[Path], Any]) -> Path:
    """What a killed process leaves: committed frames in the WAL, not yet copied into the file."""
    beside = sqlite.open(path, mode="read")  # while it is open, the last writer to close copies nothing
    change(path)
    script = "import shutil, sys; shutil.copytree(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", script, str(path.parent), str(folder)], check=True, timeout=30)
    beside.close()
    assert (folder / f"{path.name}-wal").stat().st_size > 0
    return folder / path.name


CASES = [
    (name, killed)
    for name in REFUSALS
    for killed in (False, True)
    if not (killed and name in {"missing", "empty", "no database"})  # they have no WAL to leave
]


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(("name", "killed"), CASES)
def test_a_refused_store_stays_as_it_is(
    ledger_path: Path, tmp_path: Path, contents_of: Look, name: str, killed: bool, mode: Any
) -> None:
    """Foreign, newer, older or absent: refused by name, also after a kill, and no byte of file or WAL is changed."""
    change, error = REFUSALS[name]
    if killed:
        ledger_path = as_killed(ledger_path, tmp_path / "killed", change)
    else:
        change(ledger_path)
    before = contents_of(ledger_path.parent)
    with pytest.raises(error) as refused:
        driver.SQLiteDriver(ledger_path, workspace=WORKSPACE, mode=mode)
    assert str(ledger_path) in str(refused.value)
    assert contents_of(ledger_path.parent) == before


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_file_of_another_program_stays_as_it_is(tmp_path: Path, contents_of: Look, journal: str, mode: Any) -> None:
    """Another program's file keeps its journal mode and gets no file beside it; it is refused before it is touched."""
    foreign(tmp_path / "theirs.sqlite", journal)
    before = contents_of(tmp_path)
    with pytest.raises(StoreForeign, match="application id 0"):
        driver.SQLiteDriver(tmp_path / "theirs.sqlite", workspace=WORKSPACE, mode=mode)
    assert contents_of(tmp_path) == before


def test_only_the_worker_migrates(ledger_path: Path, tmp_path: Path) -> None:
    """An older store is refused to a short command and to a reader, and brought up by the holder of the lock."""
    first = migrate.steps(migration.FOLDER)[0]
    old = tmp_path / "old.sqlite"
    connection = sqlite.open(old, mode="create")
    connection.execute(first)
    connection.pragma("user_version", 1)
    connection.pragma("application_id", opening.APPLICATION_ID)
    connection.execute(driver.queries()["insert_store"], {"workspace": WORKSPACE, "now": 1})
    connection.close()
    for mode in ("read", "write"):
        with pytest.raises(SchemaTooOld, match="start a worker"):
            driver.SQLiteDriver(old, workspace=WORKSPACE, mode=mode)
    with pytest.raises(SchemaTooOld):
        driver.SQLiteDriver(old, workspace=WORKSPACE, mode="read", may_migrate=True)
    driver.SQLiteDriver(old, workspace=WORKSPACE, may_migrate=True).close()
    driver.SQLiteDriver(old, workspace=WORKSPACE, mode="read").close()


@pytest.mark.parametrize("broken", ["create table", "insert into store values (2)", "select missing"])
def test_a_fault_in_the_middle_of_create_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """A new ledger is complete or absent: when a step fails there is no file, and the next try succeeds."""
    steps = migrate.steps

    def with_fault(folder: Path) -> list[str]:
        return [*steps(folder), f"create table half (n integer); {broken}"]

    with monkeypatch.context() as patched:
        patched.setattr(migrate, "steps", with_fault)
        with pytest.raises(Exception, match=r".") as failed:
            driver.create(tmp_path / "ledger.sqlite", workspace=WORKSPACE, now=1)
        assert not isinstance(failed.value, AssertionError)
    assert list(tmp_path.iterdir()) == []
    driver.create(tmp_path / "ledger.sqlite", workspace=WORKSPACE, now=1)
    driver.SQLiteDriver(tmp_path / "ledger.sqlite", workspace=WORKSPACE).close()


def test_a_ledger_is_never_created_over_anything(ledger_path: Path, contents_of: Look) -> None:
    """Creating where a store is fails and leaves it."""
    before = contents_of(ledger_path.parent)
    with pytest.raises(StoreExists):
        driver.create(ledger_path, workspace=WORKSPACE, now=1)
    assert contents_of(ledger_path.parent) == before


@pytest.mark.parametrize(
    ("column", "words"),
    [("job.state", JobState), ("attempt.outcome", Outcome), ("job.on_dependency", OnDependency)],
)
def test_the_words_of_a_check_are_those_of_the_rules(ledger_path: Path, column: str, words: Any) -> None:
    """The constraint of the database allows exactly the words that the rules know, no fewer and no more."""
    table, name = column.split(".")
    reader = sqlite.open(ledger_path, mode="read")
    schema = reader.execute("select sql from sqlite_schema where name = ?", (table,)).get
    reader.close()
    listed = re.search(rf"\b{name} text[^,(]*check \({name} in \((.*?)\)\)", schema, re.DOTALL)
    assert listed is not None
    assert re.findall(r"'(\w+)'", listed[1]) == [str(word) for word in words]


@pytest.mark.parametrize(
    "names",
    [
        ["0002_late.sql"],
        ["0001_one.sql", "0003_gap.sql"],
        ["0001_one.sql", "0001_twice.sql"],
        ["1_short.sql"],
        ["0001-wrong.sql"],
        ["0001_one.sql", "notes.sql"],
    ],
)
def test_steps_are_numbered_without_a_gap(tmp_path: Path, names: list[str]) -> None:
    """A folder of migrations that cannot be counted is a fault of the program, found at once."""
    for name in names:
        (tmp_path / name).write_text("-- One.\nselect 1")
    with pytest.raises(ValueError, match="without a gap"):
        migrate.steps(tmp_path)


def test_steps_come_in_their_order(tmp_path: Path) -> None:
    """The tenth step comes after the ninth."""
    for number in range(1, 13):
        (tmp_path / f"{number:04}_step.sql").write_text(f"-- Step.\nselect {number}")
    assert migrate.steps(tmp_path) == [f"-- Step.\nselect {number}" for number in range(1, 13)]
