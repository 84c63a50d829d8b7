"""P8: reading changes no byte of the database or its WAL, and creates or removes no file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perenne import sqlite

WRITER = """
import sys
from pathlib import Path
from perenne import sqlite
connection = sqlite.open(Path(sys.argv[1]), mode="write", journal=sys.argv[2])
connection.execute("insert into fact values (2)")
if sys.argv[3] == "inside":
    connection.execute("begin immediate; insert into fact values (100)")
if sys.argv[3] == "spilled":
    connection.execute("pragma cache_size = 2; begin immediate")
    for _ in range(100):
        connection.execute("insert into fact values (zeroblob(5000))")
print("ready", flush=True)
sys.stdin.readline()
connection.execute("commit" if sys.argv[3] == "inside" else "insert into fact values (100)")
print("committed", flush=True)
sys.stdin.read()
"""

READER = """
import os, signal, sys
from pathlib import Path
import apsw
from perenne import errors, sqlite
try:
    connection = sqlite.open(Path(sys.argv[1]), mode="read")
except errors.StorageError as error:
    sys.exit(f"{error.code} {error}")
connection.execute("begin")
print(connection.execute("select sum(n) from fact").get)
for sql in ("insert into fact values (1000)", "pragma user_version = 7", "create table other (n)", "vacuum"):
    try:
        connection.execute(sql)
    except apsw.Error:
        continue
    print("wrote by", sql)
if sys.argv[2] == "killed":
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
connection.execute("commit")
connection.close()
"""

FREEZE = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def traces_of(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Names, sizes, times of change and digests of all files; of `-shm` only that it is there."""
    traces = {}
    for entry in sorted(folder.iterdir()):
        found = entry.stat()
        digest = hashlib.sha256(entry.read_bytes()).hexdigest()
        traces[entry.name] = (0, 0, "") if entry.name.endswith("-shm") else (found.st_size, found.st_mtime_ns, digest)
    return traces


@pytest.fixture(params=["wal", "delete"])
def journal(request: pytest.FixtureRequest) -> str:
    """Each of the two ways a store keeps its journal."""
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path, journal: str) -> Path:
    """A store with the row 1, alone in its folder, closed."""
    folder = tmp_path / "place"
    folder.mkdir()
    path = folder / "store.sqlite"
    connection = sqlite.open(path, mode="create", journal=journal)  # type: ignore[arg-type]
    connection.execute("create table fact (n integer); insert into fact values (1)")
    connection.close()
    return path


@contextlib.contextmanager
def writing(path: Path, journal: str, how: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has committed the row 2 and stands in a transaction unless `between`.

    `inside`: with the row 100, nothing of it in the database file. `spilled`: half of it is in the file.
    """
    command = [sys.executable, "-c", WRITER, str(path), journal, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def read(path: Path, place: str, ending: str = "closed") -> str:
    """What a reader in another process prints; `frozen`: it sees the folder read-only."""
    command = [sys.executable, "-c", READER, str(path), ending]
    if place == "frozen" and os.geteuid() == 0:
        command = ["unshare", "-m", "--propagation", "private", "sh", "-c", FREEZE, "sh", str(path.parent), *command]
    elif place == "frozen":
        path.parent.chmod(0o500)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    path.parent.chmod(0o700)
    assert done.returncode == {"closed": 0, "killed": -9, "refused": 1}[ending], done.stderr
    return (done.stderr if ending == "refused" else done.stdout).strip()


@pytest.fixture(params=["writable", "frozen"])
def place(request: pytest.FixtureRequest) -> str:
    """How the reader sees the folder."""
    if request.param == "frozen" and os.geteuid() == 0 and shutil.which("unshare") is None:
        pytest.skip("NOT CHECKED: permission bits do not bind root, and there is no `unshare`")
    if request.param == "frozen" and os.geteuid() == 0:
        allowed = subprocess.run(["unshare", "-m", "true"], capture_output=True)
        if allowed.returncode != 0:
            pytest.skip("NOT CHECKED: permission bits do not bind root, and `unshare -m` is not allowed here")
    return str(request.param)


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_reading_a_store_at_rest_changes_nothing(path: Path, place: str, ending: str) -> None:
    """Without any writer, a reader that ends well or badly leaves every file as it was."""
    before = traces_of(path.parent)
    assert read(path, place, ending) == "1"
    assert traces_of(path.parent) == before


@pytest.mark.parametrize("ending", ["closed", "killed"])
@pytest.mark.parametrize("how", ["between", "inside"])
def test_reading_beside_a_writer_changes_nothing(path: Path, journal: str, place: str, how: str, ending: str) -> None:
    """Beside a live writer, in a transaction or not, readers see what is committed and leave every file as it was."""
    with writing(path, journal, how) as writer:
        before = traces_of(path.parent)
        assert read(path, place, ending) == "3"
        assert read(path, place, ending) == "3"
        assert traces_of(path.parent) == before
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "committed\n"
        before = traces_of(path.parent)
        assert read(path, place, ending) == "103"
        assert traces_of(path.parent) == before


@pytest.mark.parametrize("how", ["between", "inside"])
def test_reading_after_a_kill_changes_nothing(path: Path, journal: str, place: str, how: str) -> None:
    """After SIGKILL of the writer, readers see its commits and leave every file as it was; so does the next writer."""
    with writing(path, journal, how) as writer:
        writer.kill()
        writer.wait(timeout=60)
    before = traces_of(path.parent)
    for ending in ("closed", "killed", "closed"):
        assert read(path, place, ending) == "3"
    assert traces_of(path.parent) == before
    connection = sqlite.open(path, mode="write", journal=journal)  # type: ignore[arg-type]
    assert connection.execute("select sum(n) from fact").get == 3
    connection.close()


@pytest.mark.parametrize("journal", ["delete"], indirect=True)
def test_interrupted_rollback_journal_is_left_to_a_writer(path: Path, journal: str, place: str) -> None:
    """A store that SIGKILL left half-written is mended by a writer; a reader says so and changes nothing."""
    with writing(path, journal, "spilled") as writer:
        writer.kill()
        writer.wait(timeout=60)
    before = traces_of(path.parent)
    assert sorted(before) == ["store.sqlite", "store.sqlite-journal"]
    assert "open it once for writing" in read(path, place, "refused")
    assert traces_of(path.parent) == before
    sqlite.open(path, mode="write", journal="delete").close()
    assert read(path, place) == "3"


@pytest.mark.parametrize(("journal", "place"), [("wal", "frozen")], indirect=True)
def test_missing_companions_are_named(path: Path, place: str) -> None:
    """Where -wal and -shm are gone and cannot be made, the reader names them and creates nothing."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    assert "-wal and -shm" in read(path, place, "refused")
    assert os.listdir(path.parent) == ["store.sqlite"]


@pytest.mark.parametrize("journal", ["wal"], indirect=True)
def test_last_writer_leaves_its_files(path: Path, journal: str) -> None:
    """A writer that closes last removes neither -wal nor -shm, so that readers need not create them."""
    names = sorted(os.listdir(path.parent))
    assert names == ["store.sqlite", "store.sqlite-shm", "store.sqlite-wal"]
    sqlite.open(path, mode="write").close()
    assert sorted(os.listdir(path.parent)) == names
