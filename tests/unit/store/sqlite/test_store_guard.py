"""While a store is open, this process opens its files in no other way: that would drop the locks of SQLite."""

from __future__ import annotations

import gc
import io
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne.core.job import Submission
from perenne.errors import StoreFailed
from perenne.store.ledger import Ledger
from perenne.store.sqlite import guard
from perenne.store.sqlite.driver import SQLiteDriver

Open = Callable[..., SQLiteDriver]
Submit = Callable[[int], Submission]

OPENINGS: dict[str, Callable[[Path], object]] = {
    "open": lambda file: open(file, "rb").close(),
    "open a text": lambda file: open(str(file)).close(),
    "read_bytes": lambda file: file.read_bytes(),
    "os.open": lambda file: os.close(os.open(file, os.O_RDONLY)),
    "os.open of bytes": lambda file: os.close(os.open(os.fsencode(file), os.O_RDONLY)),
    "io.open_code": lambda file: io.open_code(str(file)).close(),
    "a copy as backup": lambda file: shutil.copy(file, file.with_name("backup")),
    "a relative name": lambda file: open(os.path.relpath(file), "rb").close(),
    "sqlite3": lambda file: sqlite3.connect(file).close(),
    "sqlite3 with a URI": lambda file: sqlite3.connect(f"file:{file}?mode=ro", uri=True).close(),
    "sqlite3 with a long URI": lambda file: sqlite3.connect(f"file://localhost{file}#x", uri=True).close(),
    "sqlite3 with a quoted URI": lambda file: sqlite3.connect(
        f"file:{str(file).replace('l', '%6c')}", uri=True
    ).close(),
}


def locks(path: Path) -> set[tuple[str, ...]]:
    """The locks of this process on the three files, as the kernel says: each by inode, first and last byte."""
    inodes = {str(os.stat(f"{path}{end}").st_ino) for end in ("", "-wal", "-shm")}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    ours = [line for line in lines if line[1] == "POSIX" and line[4] == str(os.getpid())]
    return {tuple(line[5:8]) for line in ours if line[5].split(":")[2] in inodes}


def hold(path: Path, wanted: set[tuple[str, ...]]) -> bool:
    """Whether these locks are held. The kernel's list may skip a line while other processes change theirs."""
    return any(locks(path) == wanted for _ in range(20))


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
@pytest.mark.parametrize("way", OPENINGS)
def test_second_opening_is_refused_r5_r6(
    path: Path, open_store: Open, submission: Submit, rows: Callable[[str], list[Any]], way: str, end: str
) -> None:
    """Every ordinary way to open a held file is refused by name; the locks stay, and others see later commits."""
    ledger = Ledger(open_store())
    ledger.submit(submission(1), now=1, actor="test")
    assert (held := locks(path))
    with pytest.raises(StoreFailed, match=r"belongs to store .*ledger\.sqlite, which this process has open"):
        OPENINGS[way](Path(f"{path}{end}"))
    assert hold(path, held)
    ledger.submit(submission(2), now=1, actor="test")
    assert rows("select count(*) from job") == [[2]]


def test_without_the_guard_the_locks_are_gone_r4(path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The danger is real: with the guard asleep, one opening and closing drops the locks of the open store."""
    open_store()
    assert locks(path)
    monkeypatch.setattr(guard, "_names", frozenset())
    path.read_bytes()
    Path(f"{path}-shm").read_bytes()
    assert hold(path, set())


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_sqlite3_is_refused_under_another_name(path: Path, open_store: Open, tmp_path: Path, kind: str) -> None:
    """A link of another name does not lead the standard library's SQLite to a held file."""
    open_store()
    link = tmp_path / "alias"
    link.symlink_to(path) if kind == "symbolic" else link.hardlink_to(path)
    with pytest.raises(StoreFailed, match="belongs to store"):
        sqlite3.connect(link)


def test_link_through_a_folder_is_refused(path: Path, open_store: Open, tmp_path: Path) -> None:
    """Neither does a folder that is a link: the file is known by its inode, not by its path."""
    open_store()
    (tmp_path / "folder").symlink_to(tmp_path)
    with pytest.raises(StoreFailed, match="belongs to store"):
        (tmp_path / "folder" / path.name).read_bytes()


def test_other_files_open_as_before(path: Path, open_store: Open, tmp_path: Path) -> None:
    """Files of the same name elsewhere, missing files, numbers and nonsense meet the answer they would meet anyway."""
    open_store()
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / path.name).write_bytes(b"mine")
    assert (other / path.name).read_bytes() == b"mine"
    with pytest.raises(FileNotFoundError):
        (tmp_path / "none" / path.name).read_bytes()
    with pytest.raises(ValueError, match="null byte"):
        os.open(f"\0/{path.name}", os.O_RDONLY)
    reader, writer = os.pipe()
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert pipe.read() == b""
    sqlite3.connect(":memory:").close()
    with pytest.raises(TypeError):
        sqlite3.connect(3)  # type: ignore[arg-type]


def test_closed_store_is_anybodys(path: Path, open_store: Open) -> None:
    """The files are held until the last store on them is closed, and then no longer."""
    one, two = open_store(), open_store(mode="read")
    one.close()
    with pytest.raises(StoreFailed):
        path.read_bytes()
    two.close()
    assert path.read_bytes()[:6] == b"SQLite"


def test_forgotten_store_is_anybodys(path: Path) -> None:
    """A store that was dropped without being closed holds nothing."""
    store = SQLiteDriver(path, workspace="11111111-1111-4111-8111-111111111111")
    store.read(lambda tx: tx.one("read_store"))
    with pytest.raises(StoreFailed):
        path.read_bytes()
    del store
    gc.collect()
    assert path.read_bytes()


def test_closed_store_refuses(open_store: Open) -> None:
    """A closed store says so; it is not opened again behind the caller's back."""
    store = open_store()
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="was closed; open it again"):
        store.read(lambda tx: tx.one("read_store"))
    with pytest.raises(StoreFailed, match="was closed; open it again"):
        store.write(lambda tx: tx.one("read_store"))


def test_unrelated_openings_are_not_looked_at(
    path: Path, open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone decides that another file is none of ours: no system call is made for it."""
    open_store()
    asked: list[str] = []
    monkeypatch.setattr(guard, "_identity", lambda file: asked.append(file))
    (tmp_path / "other").write_text("x")
    os.close(os.open(tmp_path, os.O_RDONLY))
    assert asked == []
    path.read_bytes()
    assert asked == [str(path)]


def test_one_hook_a_process(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many stores are opened, the process gets one hook: it could not be removed again."""
    open_store()
    added: list[object] = []
    monkeypatch.setattr(sys, "addaudithook", added.append)
    open_store()
    assert added == []
