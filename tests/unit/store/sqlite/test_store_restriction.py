"""An application's statements reach its own tables and nothing else, however they are written."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from perenne import sqlite
from perenne.errors import InvalidInput, StatementRefused
from perenne.store import apptables
from perenne.store.sqlite import migration
from perenne.store.sqlite.restriction import Restriction

SCHEMA = (migration.FOLDER.parent / "schema.sql").read_text(encoding="utf-8")


@pytest.fixture
def connection(ledger_path: Path) -> apsw.Connection:
    connection = sqlite.open(ledger_path, mode="write")
    connection.execute("create table demo_note (id integer primary key autoincrement, text text unique)")
    connection.execute("create table other_note (text)")
    connection.execute("create view demo_view as select workspace from store")
    connection.execute("create table demo_fire (a)")
    connection.execute("create trigger demo_trigger after insert on demo_fire begin update store set epoch = 9; end")
    return connection


ALLOWED = [
    ("insert into demo_note (text) values (?) returning id", ("a",), [(1,)]),
    ("insert into demo_note (text) values (:t) on conflict do nothing", {"t": "a"}, []),
    ("update DEMO_NOTE set text = 'b'; delete from demo_note where id = 9; select text from demo_note", (), [("b",)]),
    ("with n (i) as (select 1 union all select i + 1 from n where i < 3) select sum(i), count(*) from n", (), [(6, 3)]),
    ("select count(*) from demo_note", (), [(1,)]),
    ("select value from json_each('[7]')", (), [(7,)]),
    ("select max(text), upper('x') from (select text from demo_note)", (), [("b", "X")]),
]

REFUSED = [
    "select workspace from store",
    "select count(*) from job",
    "select text from other_note",
    "insert into demo_note (text) select workspace from store",
    "update store set epoch = 9",
    "delete from job",
    "select workspace from demo_view",
    "insert into demo_fire values (1)",
    "create table demo_more (a)",
    "create temp table demo_more (a)",
    "drop table demo_note",
    "alter table demo_note add column b",
    "create index demo_i on demo_note (text)",
    "commit",
    "rollback",
    "begin",
    "savepoint a",
    "pragma foreign_keys = off",
    "pragma user_version = 9",
    "select name from pragma_table_info('job')",
    "select sql from sqlite_schema",
    "select sql from sqlite_master",
    "delete from sqlite_sequence",
    "select data from sqlite_dbpage",
    "select name from dbstat",
    "attach ':memory:' as more",
    "vacuum",
    "vacuum into 'copy.sqlite'",
    "analyze",
    "reindex",
    "select load_extension('x')",
    "create virtual table demo_v using fts5 (a)",
    "nonsense",
    "select ?",
]


def test_rows_of_its_own_tables_are_an_apps_to_read_and_write(connection: apsw.Connection) -> None:
    """Reading, writing, values by place and by name, several statements, functions and names of its own."""
    restriction = Restriction(connection)
    for sql, values, rows in ALLOWED:
        assert restriction.execute("demo_", sql, values) == rows, sql


@pytest.mark.parametrize("sql", REFUSED)
@pytest.mark.parametrize("begun", [False, True])
def test_everything_else_is_refused_and_changes_nothing(connection: apsw.Connection, sql: str, begun: bool) -> None:
    """Other tables, the schema, the transaction, the settings and other files stay out of reach."""
    before = connection.execute("select workspace, epoch from store").fetchall()
    schema = connection.execute("select sql from sqlite_schema").fetchall()
    if begun:
        connection.execute("begin immediate")
    with pytest.raises(StatementRefused) as refused:
        Restriction(connection).execute("demo_", sql)
    assert "\n" not in str(refused.value)
    assert connection.in_transaction is begun
    assert connection.execute("select workspace, epoch from store").fetchall() == before
    assert connection.execute("select sql from sqlite_schema").fetchall() == schema
    assert connection.execute("select count(*) from demo_note").fetchall() == [(0,)]


def test_the_engines_own_text_opens_no_door(connection: apsw.Connection) -> None:
    """A statement that the engine has just carried out, letter by letter, is refused to the application."""
    text = "select workspace, epoch from store"
    restriction = Restriction(connection)
    restriction.execute("demo_", "select 1")
    assert connection.execute(text).fetchall()
    with pytest.raises(StatementRefused, match="asks for read store"):
        restriction.execute("demo_", text)
    assert connection.execute(text).fetchall()


@pytest.mark.parametrize("values", [(object(),), {"t": object()}, (1, 2), 7])
def test_values_that_do_not_fit_are_refused(connection: apsw.Connection, values: object) -> None:
    """A value that no column can hold, and too many of them, are the statement's fault."""
    with pytest.raises(StatementRefused):
        Restriction(connection).execute("demo_", "insert into demo_note (text) values (:t)", values)  # type: ignore[arg-type]


def test_a_constraint_of_its_own_is_said_in_sqlites_words(connection: apsw.Connection) -> None:
    """What the application's own table refuses is named."""
    with pytest.raises(StatementRefused, match=r"UNIQUE constraint failed: demo_note\.text"):
        Restriction(connection).execute("demo_", "insert into demo_note (text) values ('a'), ('a')")


@pytest.mark.parametrize(
    ("app", "prefix"), [("demo", "demo_"), ("My App", "my_app_"), ("scenes-alone", "scenes_alone_"), ("a9", "a9_")]
)
def test_the_prefix_is_the_name_of_the_app(app: str, prefix: str) -> None:
    """In lower case, with what no plain name holds as an underscore."""
    assert apptables.prefix_of(app) == prefix


@pytest.mark.parametrize("app", ["job", "Store", "queue-one", "sqlite", "9lives", "é", "__", "attempt_x"])
def test_an_app_named_as_the_engines_tables_has_no_tables(app: str) -> None:
    """Its tables could not be told from the engine's own."""
    with pytest.raises(InvalidInput, match="begins with another word"):
        apptables.prefix_of(app)


def test_every_table_of_the_engine_is_reserved() -> None:
    """No application can have a name under which a table or an index of the engine lies."""
    names = re.findall(r"^create (?:unique )?(?:table|index|view|trigger) (\w+)", SCHEMA, re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if not apptables.is_ours(name)] == []
