"""`Enquete.sqlite`: its schema, its modes, and what opening refuses."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne.apps.evidence import catalogue, investigation, manifest, places
from perenne.errors import (
    InvalidInput,
    SchemaTooNew,
    SchemaTooOld,
    StorageError,
    StoreExists,
    StoreFailed,
    StoreForeign,
    StoreMissing,
)

AT = "2026-09-26T21:00:00Z"
SHA = "a" * 64
EVIDENCE = {
    "id": "82000000-0000-4000-8000-0000000000e1",
    "name": "e1.eml",
    "relative_path": "01_Preuves_Originales/Emails/e1.eml",
    "type_id": 5,
    "size_bytes": 1,
    "sha256": SHA,
    "imported_at": AT,
    "updated_at": AT,
    "original_name": "mail.eml",
}
EXTRACTION = {
    "id": "82000000-0000-4000-8000-0000000000f1",
    "evidence_id": EVIDENCE["id"],
    "source_kind": "evidence",
    "source_id": EVIDENCE["id"],
    "tool_id": "tool",
    "created_at": AT,
}
OBSERVATION = {
    "id": "82000000-0000-4000-8000-0000000000a1",
    "evidence_id": EVIDENCE["id"],
    "entity_type": "email_address",
    "value_raw": "A@x.test",
    "value_normalized": "a@x.test",
    "role": "from",
    "provenance_kind": "header",
    "source_header": "from",
    "occurrence": 1,
    "extraction_id": EXTRACTION["id"],
    "observed_at": AT,
    "integrated_at": AT,
}
JOURNAL = {
    "id": "82000000-0000-4000-8000-0000000000b1",
    "event_time": AT,
    "action": "act",
    "resultat": "success",
    "created_at": AT,
}
TABLES = {
    "preuves": EVIDENCE,
    "extractions": EXTRACTION,
    "evidence_entity_observations": OBSERVATION,
    "journal": JOURNAL,
}


def insert(connection: apsw.Connection, table: str, row: dict[str, Any]) -> None:
    columns = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    connection.execute(f"insert into {table} ({columns}) values ({values})", row)


def filled(root: Path) -> apsw.Connection:
    connection = catalogue.open(root, "write")
    for table in TABLES:
        insert(connection, table, TABLES[table])
    return connection


def test_creation_is_exclusive_and_private(root: Path) -> None:
    """The catalogue is 0600, in rollback-journal mode, and is never created over anything."""
    path = root / places.CATALOGUE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(StoreExists):
        catalogue.create(root, investigation.read(root), AT)
    assert path.read_bytes() == before
    assert sorted(item.name for item in root.glob("Enquete*")) == ["Enquete.sqlite"]


def test_failed_creation_leaves_no_file(tmp_path: Path) -> None:
    """A catalogue whose first row is refused is not left half made."""
    with pytest.raises(InvalidInput):
        catalogue.create(tmp_path, manifest.Investigation("82000000-0000-4000-8000-000000000001", "  ", False), AT)
    assert not any(tmp_path.iterdir())


def test_settings_are_those_of_the_contract(root: Path) -> None:
    """A writer has a rollback journal, synchronous EXTRA and foreign keys (EV-7)."""
    connection = catalogue.open(root, "write")
    try:
        assert connection.pragma("journal_mode") == "delete"
        assert connection.pragma("synchronous") == 3
        assert connection.pragma("foreign_keys") == 1
    finally:
        connection.close()


def test_schema_version_is_20(root: Path, sql: Callable[..., list[Any]]) -> None:
    """The version, the owner and its title stand in the file; no path of this machine does."""
    assert sql(root, "select value from metadata where key = 'schema_version'") == [("20",)]
    assert sql(root, "select id, name, root_path from investigation") == [
        ("82000000-0000-4000-8000-000000000001", "SPECIMEN", ".")
    ]


def test_evidence_types_are_the_nine(root: Path, sql: Callable[..., list[Any]]) -> None:
    """The nine codes of L:2.22 stand under the numbers of the reference."""
    codes = ["screenshot", "photo", "video", "document", "email", "archive", "audio", "text", "other"]
    assert sql(root, "select id, code from types_preuve order by id") == list(enumerate(codes, 1))


def test_valid_rows_are_taken(root: Path) -> None:
    """One row of each table, as an analysis writes it, passes every rule and the foreign keys."""
    connection = filled(root)
    try:
        assert connection.pragma("foreign_key_check") is None
        assert connection.pragma("integrity_check") == "ok"
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("preuves", "sha256", SHA.upper()),
        ("preuves", "sha256", "a" * 63),
        ("preuves", "sha256", "g" * 64),
        ("preuves", "sha256", None),
        ("preuves", "size_bytes", -1),
        ("preuves", "size_bytes", None),
        ("preuves", "size_bytes", "many"),
        ("preuves", "type_id", 10),
        ("preuves", "type_id", None),
        ("preuves", "imported_at", "2026-09-26"),
        ("preuves", "updated_at", AT + "0"),
        ("preuves", "collected_at", "now"),
        ("preuves", "status", "lost"),
        ("preuves", "integrity_status", 5),
        ("preuves", "locked", 2),
        ("preuves", "relative_path", " "),
        ("preuves", "original_name", ""),
        ("extractions", "source_kind", "guess"),
        ("extractions", "created_at", "2026-09-26T21:00:00"),
        ("extractions", "tool_id", " "),
        ("extractions", "source_id", ""),
        ("extractions", "evidence_id", "82000000-0000-4000-8000-0000000000ff"),
        ("evidence_entity_observations", "occurrence", 0),
        ("evidence_entity_observations", "occurrence", None),
        ("evidence_entity_observations", "occurrence", "first"),
        ("evidence_entity_observations", "verification_status", "sure"),
        ("evidence_entity_observations", "promotion_kind", "bought"),
        ("evidence_entity_observations", "observed_at", "2026"),
        ("evidence_entity_observations", "integrated_at", "2026"),
        ("evidence_entity_observations", "evidence_id", "82000000-0000-4000-8000-0000000000ff"),
        ("evidence_entity_observations", "entity_id", "82000000-0000-4000-8000-0000000000ff"),
        ("evidence_entity_observations", "extraction_id", "82000000-0000-4000-8000-0000000000ff"),
        ("journal", "resultat", "maybe"),
        ("journal", "event_time", "2026"),
        ("journal", "objet_id", "82000000-0000-4000-8000-0000000000a1"),
        ("journal", "action", ""),
    ],
)
def test_bad_value_is_refused(root: Path, table: str, column: str, value: object) -> None:
    """Each rule of L:2.22 refuses the row that breaks it."""
    connection = catalogue.open(root, "write")
    try:
        for name in TABLES:
            if name == table:
                break
            insert(connection, name, TABLES[name])
        with pytest.raises(apsw.ConstraintError):
            insert(connection, table, TABLES[table] | {column: value})
        insert(connection, table, TABLES[table])
    finally:
        connection.close()


@pytest.mark.parametrize("column", ["value_normalized", "role", "source_header", "occurrence", "provenance_kind"])
def test_observation_is_unique(root: Path, column: str) -> None:
    """The same observation of one extraction is refused twice; one differing field makes it another."""
    other = {"id": "82000000-0000-4000-8000-0000000000a2"}
    connection = filled(root)
    try:
        with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
            insert(connection, "evidence_entity_observations", OBSERVATION | other | {"value_raw": "other"})
        different = 2 if column == "occurrence" else "other"
        insert(connection, "evidence_entity_observations", OBSERVATION | other | {column: different})
    finally:
        connection.close()


def test_places_are_unique(root: Path) -> None:
    """Two pieces of evidence never share a file."""
    connection = filled(root)
    try:
        with pytest.raises(apsw.ConstraintError, match="relative_path"):
            insert(connection, "preuves", EVIDENCE | {"id": "82000000-0000-4000-8000-0000000000e2"})
    finally:
        connection.close()


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("update metadata set value = '21' where key = 'schema_version'", SchemaTooNew),
        ("update metadata set value = '19' where key = 'schema_version'", SchemaTooOld),
        ("update metadata set value = 'twenty' where key = 'schema_version'", StoreFailed),
        ("update metadata set value = 20 where key = 'schema_version'", None),
        ("delete from metadata", StoreFailed),
        ("update investigation set id = '82000000-0000-4000-8000-0000000000ff'", StoreForeign),
        ("delete from investigation", StoreForeign),
    ],
)
def test_opening_refuses(
    root: Path, sql: Callable[..., list[Any]], mode: Any, statement: str, error: type[Exception] | None
) -> None:
    """Another version, another owner or missing metadata is refused, and no byte of the file changes."""
    sql(root, statement)
    before = hashlib.sha256((root / places.CATALOGUE).read_bytes()).digest()
    if error is None:
        catalogue.open(root, mode).close()
    else:
        with pytest.raises(error, match=r"Enquete\.sqlite"):
            catalogue.open(root, mode)
    assert hashlib.sha256((root / places.CATALOGUE).read_bytes()).digest() == before


@pytest.mark.parametrize("mode", ["read", "write"])
def test_missing_catalogue_is_never_made(root: Path, mode: Any) -> None:
    """Opening a catalogue that is gone says so and creates nothing."""
    (root / places.CATALOGUE).unlink()
    with pytest.raises(StoreMissing, match=r"Enquete\.sqlite"):
        catalogue.open(root, mode)
    assert not list(root.glob("Enquete*"))


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_damaged_catalogue_is_refused(root: Path, mode: Any, content: bytes) -> None:
    """A file that is no database is an error of storage, never a traceback of the library."""
    (root / places.CATALOGUE).write_bytes(content)
    with pytest.raises(StorageError):
        catalogue.open(root, mode)
    assert (root / places.CATALOGUE).read_bytes() == content


def test_linked_catalogue_is_refused(root: Path, tmp_path: Path) -> None:
    """A catalogue behind a symlink is not the one of this folder."""
    (root / places.CATALOGUE).rename(tmp_path / "elsewhere.sqlite")
    (root / places.CATALOGUE).symlink_to(tmp_path / "elsewhere.sqlite")
    with pytest.raises(StoreMissing, match="regular"):
        catalogue.open(root, "read")


def test_reading_changes_nothing(root: Path) -> None:
    """A reader leaves every byte and every name as it was, and cannot write."""
    before = {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}
    with pytest.raises(StorageError), catalogue.reading(root) as connection:
        connection.execute("delete from metadata")
    assert {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()} == before


def test_transaction_is_whole_or_nothing(root: Path, sql: Callable[..., list[Any]]) -> None:
    """An error inside a transaction takes all of it back and is passed on."""
    with pytest.raises(InvalidInput), catalogue.transaction(root, "publish") as connection:
        [insert(connection, "preuves", row) for row in (EVIDENCE, EVIDENCE)]
    assert sql(root, "select count(*) from preuves") == [(0,)]
    with catalogue.transaction(root, "publish") as connection:
        insert(connection, "preuves", EVIDENCE)
    assert sql(root, "select count(*) from preuves") == [(1,)]


def test_broken_rule_is_bad_input(root: Path) -> None:
    """A row that breaks a rule of the schema is the caller's error, in one sentence."""
    with pytest.raises(InvalidInput, match="breaks a rule"), catalogue.transaction(root, "publish") as connection:
        insert(connection, "preuves", EVIDENCE | {"sha256": "x"})


def test_text_that_is_no_unicode_is_bad_input(root: Path) -> None:
    """Half a surrogate pair cannot be stored, and says so."""
    with pytest.raises(InvalidInput, match="UTF-8"), catalogue.transaction(root, "publish") as connection:
        insert(connection, "preuves", EVIDENCE | {"original_name": "\udc80"})
