"""The library that comes with the package is the one that the gate lets in, and the only one that runs our SQL (r7)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import apsw

from perenne import sqlite

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
# Where the race that loses commits was mended on the main line, as SQLite's own list of changes says.
MENDED = (3, 51, 3)


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3])


def test_gate_stands_where_the_race_was_mended() -> None:
    """The gate asks for the first release of the main line without the race; mended older branches are refused too."""
    assert sqlite._OLDEST_LIBRARY == MENDED


def test_library_passes_the_gate() -> None:
    """The SQLite that apsw loads is at least the one that the gate asks for."""
    assert version_of(apsw.sqlite_lib_version()) >= sqlite._OLDEST_LIBRARY


def test_no_allowed_apsw_brings_a_library_that_the_gate_refuses() -> None:
    """The oldest apsw that the project accepts ships a SQLite that passes: its version begins with that of SQLite."""
    dependencies = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    oldest = [match[1] for line in dependencies if (match := re.fullmatch(r"apsw>=([\d.]+)", line))]
    assert len(oldest) == 1
    assert version_of(oldest[0]) >= sqlite._OLDEST_LIBRARY


def test_headers_library_and_connection_agree(tmp_path: Path) -> None:
    """apsw was compiled for the library it runs on, and a connection of ours answers with the same version."""
    connection = sqlite.open(tmp_path / "x", mode="create")
    answered = connection.execute("select sqlite_version(), sqlite_source_id()").get
    connection.close()
    assert answered == (apsw.sqlite_lib_version(), apsw.sqlite3_sourceid())
    first, second, third = version_of(answered[0])
    assert first * 1_000_000 + second * 1000 + third == apsw.SQLITE_VERSION_NUMBER


def test_library_is_apsws_own() -> None:
    """SQLite is compiled into apsw: no library of the system, of another age, can take its place."""
    assert apsw.using_amalgamation
