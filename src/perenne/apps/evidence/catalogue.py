"""`Enquete.sqlite`, the only business truth of an investigation: making it, opening it, writing in one transaction.

What is published in it is in `publication.py`; what its rows hold is in `rows.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Literal

import apsw

from perenne import sqlite
from perenne.apps.evidence import manifest, places
from perenne.apps.evidence.identities import check_instant
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, SchemaTooNew, SchemaTooOld, StoreFailed, StoreForeign, StoreMissing

SCHEMA_VERSION = 20
BUSY_S = 60.0


def create(root: Path, investigation: manifest.Investigation, created_at: str) -> Path:
    """Make an empty catalogue, 0600, with the whole schema in one transaction; returns its path.

    Raises:
        StoreExists: something is there already; it is left as it is.
    """
    check_instant("created_at", created_at)
    path = root / places.CATALOGUE
    connection = sqlite.open(path, mode="create", journal="delete", synchronous="extra", busy_s=BUSY_S)
    try:
        with _named_errors(path):
            _fill(connection, investigation, created_at)
    except BaseException:
        connection.close()
        for left in (path, path.with_name(f"{path.name}-journal")):  # SQLite may have failed to remove its own
            with contextlib.suppress(OSError):
                left.unlink()
        raise
    connection.close()
    return path


def open(root: Path, mode: Literal["read", "write"]) -> apsw.Connection:
    """The catalogue of the investigation in `root`; the caller closes the connection.

    Raises:
        StoreMissing: it is not there; it is never made here.
        StoreForeign: it belongs to another investigation than the manifest says.
        SchemaTooNew, SchemaTooOld: its version is not 20; nothing is migrated.
        StoreBusy, StoreFailed: it cannot be read.
    """
    investigation = manifest.read(root)
    path = root / places.CATALOGUE
    if not path.is_file() or path.is_symlink():
        raise StoreMissing(
            f"{path} is missing or no regular file; it is never made again silently, restore it from a backup",
            path=str(path),
        )
    connection = sqlite.open(path, mode=mode, journal="delete", synchronous="extra", busy_s=BUSY_S)
    try:
        with _named_errors(path):
            _check_version(path, connection)
            _check_owner(path, connection, investigation.id)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(root: Path, protocol: str) -> Iterator[apsw.Connection]:
    """One immediate transaction, committed at the end; it also orders the writers of files, as `locked` says.

    Passes the crash points `written`, `committed` and `rolled_back` of `protocol`.

    Raises:
        StoreBusy: another process wrote until the deadline.
        InvalidInput: what was written breaks a rule of the schema.
    """
    with locked(root) as connection:
        try:
            yield connection
            crash_point(f"{protocol}.written")
            connection.execute("commit")
        except BaseException:
            _roll_back(connection)
            crash_point(f"{protocol}.rolled_back")
            raise
    crash_point(f"{protocol}.committed")


@contextmanager
def locked(root: Path) -> Iterator[apsw.Connection]:
    """The catalogue's write lock, which publishers, importers and cleaners of files hold while they touch them."""
    path = root / places.CATALOGUE
    connection = open(root, "write")
    try:
        with _named_errors(path):
            connection.execute("begin immediate")
            yield connection
    finally:
        connection.close()


@contextmanager
def reading(root: Path) -> Iterator[apsw.Connection]:
    """One consistent view. A journal that a killed writer left is rolled back by SQLite, which needs to write."""
    path = root / places.CATALOGUE
    left_by_a_crash = path.with_name(f"{path.name}-journal").exists()
    connection = open(root, "write" if left_by_a_crash else "read")
    try:
        with _named_errors(path):
            connection.execute("begin")
            yield connection
    finally:
        connection.close()


def _fill(connection: apsw.Connection, investigation: manifest.Investigation, created_at: str) -> None:
    connection.execute("begin immediate")
    connection.execute(resources.files(__package__).joinpath("schema.sql").read_text("utf-8"))
    connection.execute(
        "insert into metadata (key, value) values ('schema_version', :version)", {"version": str(SCHEMA_VERSION)}
    )
    # The reference keeps an absolute path here; ours may be moved, so it names the folder it stands in.
    connection.execute(
        """
        insert into investigation (id, name, root_path, created_at, updated_at)
        values (:id, :name, '.', :created_at, :created_at)
        """,
        {"id": investigation.id, "name": investigation.title, "created_at": created_at},
    )
    connection.execute("commit")


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    with sqlite.translated(path):
        try:
            yield
        except apsw.ConstraintError as error:
            raise InvalidInput(f"a row breaks a rule of {path.name}: {error}", path=str(path)) from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a text for {path.name} cannot be written as UTF-8: {error}", path=str(path)) from error


def _roll_back(connection: apsw.Connection) -> None:
    # After some errors SQLite has already rolled back; then there is nothing left to undo.
    if connection.in_transaction:
        connection.execute("rollback")


def _check_version(path: Path, connection: apsw.Connection) -> None:
    found = connection.execute("select value from metadata where key = 'schema_version'").get
    if not isinstance(found, str) or not found.isascii() or not found.isdigit():
        raise StoreFailed(f"{path} has the schema version {found!r}; restore the file", path=str(path))
    if int(found) > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"{path} has schema version {found}, this program reads {SCHEMA_VERSION}; use a newer program",
            path=str(path),
            found=int(found),
        )
    if int(found) < SCHEMA_VERSION:
        raise SchemaTooOld(
            f"{path} has schema version {found}, this program reads {SCHEMA_VERSION} and never migrates it; "
            "open it once with the reference program of that version",
            path=str(path),
            found=int(found),
        )


def _check_owner(path: Path, connection: apsw.Connection, investigation_id: str) -> None:
    owners = [row[0] for row in connection.execute("select id from investigation limit 2")]
    if owners != [investigation_id]:
        raise StoreForeign(
            f"{path} belongs to investigation {', '.join(map(str, owners)) or 'none'}, "
            f"the manifest says {investigation_id}; put the right file back",
            path=str(path),
            found=owners,
            expected=investigation_id,
        )
