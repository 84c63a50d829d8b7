"""A backup takes the ledger's place whole, under a new epoch, when nobody works; what it replaced is kept."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import sqlite
from perenne.core import events
from perenne.core.states import JobState
from perenne.errors import (
    InvalidInput,
    SchemaTooNew,
    StaleToken,
    StoreBusy,
    StoreFailed,
    StoreForeign,
    StoreMissing,
    WorkerAlreadyRuns,
)
from perenne.files import workspace as folder
from perenne.files.lock import Lock
from perenne.runtime import backup as runtime
from perenne.store.sqlite import backup as copies
from perenne.store.sqlite import migration

POINTS = [
    "restore.leftover_removed",
    "copy.created",
    "copy.filled",
    "restore.staged",
    "migrate.written",
    "migrate.committed",
    "restore.written",
    "restore.committed",
    "restore.kept",
    "restore.kept_synced",
    "restore.renamed",
    "restore.folder_synced",
]
BEFORE = POINTS[: POINTS.index("restore.renamed")]
SOURCE = str(Path(perenne.__file__).parents[1])


def restore(place: Any, path: Path) -> Any:
    workspace = folder.read(place.workspace.root)
    return runtime.restore(workspace, path, copies=copies, clock=place.clock(), actor="person:test")


def kept(place: Any) -> list[str]:
    return sorted(path.name for path in place.workspace.own_folder.glob("ledger.sqlite.replaced-*"))


def epoch_of(path: Path, trouble: Any) -> int:
    return int(trouble.rows(path, "select epoch from store")[0][0])


@pytest.fixture
def saved(place: Any, tmp_path: Path) -> Path:
    """A backup of a workspace with a done job and a running one, from before it did more."""
    place.done = place.complete()
    place.ran = place.submit()
    place.token = place.claim()
    path = tmp_path / "saved.sqlite"
    runtime.backup(place.workspace, path, copies=copies)
    place.end(place.token, events.Returned())
    place.later = place.complete()
    return path


def test_restored_ledger_is_the_backup(place: Any, saved: Path, make: Callable[..., Any], trouble: Any) -> None:
    """After a restore the workspace holds what the backup held, one epoch and one line further; nothing else is new."""
    place.close()
    found = restore(place, saved)
    assert (found.epoch, found.jobs) == (1, 2)
    fresh = make(again=True)
    assert fresh.ids() == {place.done, place.ran}
    assert fresh.owners.epoch() == 2
    last = fresh.reader.history()[-1]
    assert (last.subject, last.verb, last.actor, last.at) == ("workspace", "restore", "person:test", place.now)
    assert last.reason == f"restored from saved.sqlite, revision {found.revision}; epoch 1 became 2"
    assert len(fresh.reader.history()) == found.revision + 1
    fresh.close()
    assert trouble.rows(fresh.workspace.ledger, "pragma integrity_check") == [("ok",)]


def test_replaced_ledger_is_kept_whole(place: Any, saved: Path, trouble: Any) -> None:
    """What was replaced stays beside the ledger as one private file that holds everything, the newest lines too."""
    place.close()
    restore(place, saved)
    (name,) = kept(place)
    path = place.workspace.own_folder / name
    assert re.fullmatch(r"ledger\.sqlite\.replaced-20250615T1506\d\d\.000000Z", name)
    assert trouble.rows(path, "select state, count(*) from job group by 1") == [("COMPLETED", 3)]
    assert epoch_of(path, trouble) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_restored_ledger_can_be_read_at_once(place: Any, saved: Path, app: perenne.App) -> None:
    """After a restore every file a reader needs is there, private: a reader makes none."""
    place.close()
    restore(place, saved)
    names = ["ledger.sqlite", "ledger.sqlite-shm", "ledger.sqlite-wal"]
    assert [path.name for path in sorted(place.workspace.own_folder.glob("ledger.sqlite*"))][:3] == names
    assert {stat.S_IMODE((place.workspace.own_folder / name).stat().st_mode) for name in names} == {0o600}
    before = sorted(os.listdir(place.workspace.own_folder))
    with perenne.open(place.workspace.root, app, access="read") as engine:
        assert engine.counts()
    assert sorted(os.listdir(place.workspace.own_folder)) == before


def test_token_from_before_a_restore_is_stale(place: Any, saved: Path, make: Callable[..., Any]) -> None:
    """The attempt that ran when the backup was made writes nothing after a restore, although its row says RUNNING."""
    place.close()
    restore(place, saved)
    fresh = make(again=True)
    running = fresh.reader.job(place.ran)
    assert (running.state, running.attempt, running.number) == (
        JobState.RUNNING,
        place.token.attempt,
        place.token.number,
    )
    with pytest.raises(StaleToken):
        fresh.end(place.token, events.Returned())
    with pytest.raises(StaleToken):
        fresh.ledger.progress(place.token, 1, 2, None, now=fresh.tick())
    with pytest.raises(StaleToken):
        fresh.ledger.check(place.token)
    assert fresh.reader.job(place.ran).state is JobState.RUNNING


def test_what_ran_is_settled_by_the_next_recovery(
    place: Any, saved: Path, make: Callable[..., Any], app: perenne.App
) -> None:
    """The next worker finds the attempt of the backup interrupted and runs the job again, under the new epoch."""
    place.close()
    restore(place, saved)
    with perenne.open(place.workspace.root, app, access="work") as engine:
        assert engine.work().recovered == 1
    fresh = make(again=True)
    attempts = fresh.reader.attempts(place.ran)
    assert [(one.outcome, one.epoch) for one in attempts] == [("interrupted", 1), ("completed", 2)]
    assert fresh.reader.job(place.ran).state is JobState.COMPLETED


def test_epoch_is_above_both(place: Any, saved: Path, make: Callable[..., Any]) -> None:
    """Restoring the same old backup again and again gives a higher epoch each time."""
    place.close()
    for epoch in (2, 3, 4):
        restore(place, saved)
        fresh = make(again=True)
        assert fresh.owners.epoch() == epoch
        place.tick()
        fresh.close()
    assert len(kept(place)) == 3


WORKER = """
import sys, perenne
from perenne import App, Kind
app = App("upkeep", [Kind("note", 1, lambda context, text: text, str)], one_worker={one_worker})
with perenne.open(sys.argv[1], app, access={access!r}) as engine:
    engine.counts()
    print("ready", flush=True)
    sys.stdin.readline()
"""


class Other:
    """Another process that has the workspace open."""

    def __init__(self, root: Path, access: str, one_worker: bool = False) -> None:
        code = WORKER.format(access=access, one_worker=one_worker)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )

    def __enter__(self) -> subprocess.Popen[str]:
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"
        return self.process

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize("access", ["read", "write", "work", "work alone"])
def test_live_workspace_is_refused_by_name(place: Any, saved: Path, trouble: Any, access: str) -> None:
    """While a worker, a submitter or a reader has the workspace open, a restore is refused naming the process."""
    place.close()
    with Other(place.workspace.root, access.split()[0], one_worker=access == "work alone") as other:
        before = {key: value for key, value in trouble.contents(place.workspace.root).items() if value is not None}
        with pytest.raises(WorkerAlreadyRuns if "work" in access else StoreBusy, match=str(other.pid)):
            restore(place, saved)
        after = {key: value for key, value in trouble.contents(place.workspace.root).items() if value is not None}
        del after[".perenne/worker.lock"]  # says who asked last
        before.pop(".perenne/worker.lock", None)
        assert after == before
    restore(place, saved)


def test_stopped_reader_is_named_as_stopped(place: Any, saved: Path) -> None:
    """A process that has the ledger open and is stopped is named with that word, for it will not end by itself."""
    place.close()
    with Other(place.workspace.root, "read") as other:
        os.kill(other.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, other.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(StoreBusy, match=rf"process {other.pid} \(.*, stopped\)"):
            restore(place, saved)


def test_own_engine_is_in_the_way_too(place: Any, saved: Path) -> None:
    """An engine that this very process has open is in the way as any other, and is said to be this process's."""
    with pytest.raises(StoreBusy, match=rf"this process \({os.getpid()}\)"):
        restore(place, saved)
    assert place.complete()


def test_every_owner_lock_is_asked(place: Any, saved: Path) -> None:
    """A worker that holds only its own lock, and has not opened the ledger yet, is in the way."""
    place.close()
    lock = Lock.take(place.workspace.lock_of("44444444-4444-4444-8444-444444444444"), text="worker 4, pid 77\n")
    assert lock
    with lock, pytest.raises(WorkerAlreadyRuns, match="worker 4, pid 77"):
        restore(place, saved)
    restore(place, saved)


def test_opener_waits_outside_while_a_restore_goes_on(place: Any, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a restore is under way nobody else opens the ledger, neither the old file nor the new one."""
    place.close()
    real = runtime._exchange
    tried: list[str] = []

    def exchange(*given: Any) -> None:
        code = "import sys, apsw; apsw.Connection(sys.argv[1]).execute('begin immediate')"
        done = subprocess.run([sys.executable, "-c", code, str(place.workspace.ledger)], capture_output=True, text=True)
        tried.append(done.stderr)
        real(*given)

    monkeypatch.setattr(runtime, "_exchange", exchange)
    restore(place, saved)
    assert "BusyError" in tried[0]


def test_bad_backups_are_refused(
    place: Any, saved: Path, make: Callable[..., Any], tmp_path: Path, trouble: Any
) -> None:
    """A backup of another workspace, of a newer program, damaged, cut, or no ledger is refused; nothing changes."""
    other = make("other")
    runtime.backup(other.workspace, tmp_path / "foreign.sqlite", copies=copies)
    for name in ("newer", "broken", "cut", "strange"):
        shutil.copyfile(saved, tmp_path / f"{name}.sqlite")
    trouble.rows(tmp_path / "newer.sqlite", "pragma user_version = 99")
    trouble.rows(tmp_path / "strange.sqlite", "pragma application_id = 7")
    trouble.rows(tmp_path / "broken.sqlite", "update attempt set job = 99 where job = 1")
    with open(tmp_path / "cut.sqlite", "r+b") as file:
        file.truncate(8192)
    (tmp_path / "text.sqlite").write_text("not a database")
    os.mkfifo(tmp_path / "pipe.sqlite")
    place.close()
    before = trouble.contents(place.workspace.root)
    bad: dict[str, type[Exception]] = {
        "foreign": StoreForeign,
        "newer": SchemaTooNew,
        "strange": StoreForeign,
        "broken": StoreFailed,
        "cut": StoreFailed,
        "text": StoreForeign,
        "pipe": StoreMissing,
        "missing": StoreMissing,
    }
    for name, refusal in bad.items():
        with pytest.raises(refusal, match=name):
            restore(place, tmp_path / f"{name}.sqlite")
    with pytest.raises(InvalidInput, match="the ledger itself"):
        restore(place, place.workspace.ledger)
    after = trouble.contents(place.workspace.root)
    assert after.pop(".perenne/worker.lock") is not None
    assert after == before


def test_older_backup_is_brought_to_today(full: Any, make: Callable[..., Any], tmp_path: Path, trouble: Any) -> None:
    """A backup of an older schema is migrated before it has the ledger's name; the backup itself stays as it is."""
    old = tmp_path / "old.sqlite"
    shutil.copyfile(Path(__file__).parents[2] / "data" / "ledger-v1.sqlite", old)
    data = old.read_bytes()
    full.close()
    assert restore(full, old).schema == 1
    assert old.read_bytes() == data
    fresh = make("full", again=True)
    assert fresh.reader.counts() == dict.fromkeys(JobState, 1)
    assert fresh.owners.epoch() == 2
    assert trouble.rows(fresh.workspace.ledger, "pragma user_version") == [(migration.known(),)]


@pytest.mark.parametrize("damage", ["missing", "text", "empty", "pages", "wal of another", "foreign"])
def test_damaged_ledger_is_replaced_and_kept(place: Any, saved: Path, make: Callable[..., Any], damage: str) -> None:
    """A ledger that is missing, damaged or not ours is replaced; every file of it that is left is kept beside."""
    place.close()
    path = place.workspace.ledger
    wal = Path(f"{path}-wal")
    if damage == "missing":
        path.unlink()
        wal.write_bytes(b"left alone")
    elif damage == "text":
        path.write_text("not a database")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pages":
        path.write_bytes(path.read_bytes()[:100] + b"\xa5" * 8000)
    elif damage == "wal of another":
        wal.write_bytes(b"\x37\x7f\x06\x82" + b"\xa5" * 60_000)
        path.write_bytes(path.read_bytes()[:4096])
    else:
        connection = sqlite.open(path, mode="write")
        connection.pragma("application_id", 5)
        connection.close()
    restore(place, saved)
    fresh = make(again=True)
    assert fresh.ids() == {place.done, place.ran}
    assert fresh.owners.epoch() == 2
    fresh.close()
    names = kept(place)
    assert names
    if damage == "missing":
        assert [name for name in names if name.endswith("-wal")]
        assert (place.workspace.own_folder / names[-1]).exists()
    else:
        assert [name for name in names if name.endswith("Z")]


def test_damaged_ledger_that_is_open_is_not_replaced(place: Any, saved: Path) -> None:
    """A damaged ledger that a process still has open is not moved away under it."""
    place.close()
    with Other(place.workspace.root, "read") as other:
        with open(place.workspace.ledger, "r+b") as file:
            file.write(b"not a database any more")
        with pytest.raises(StoreBusy, match=str(other.pid)):
            restore(place, saved)
        assert kept(place) == []


@pytest.fixture
def old_saved(full: Any) -> Path:
    """A backup of an older schema, so that a restore passes its migration too, and a leftover of a killed restore."""
    (full.workspace.own_folder / "ledger.sqlite.stage-0").write_bytes(b"left")
    return Path(__file__).parents[2] / "data" / "ledger-v1.sqlite"


@pytest.mark.parametrize("point", POINTS)
def test_restore_killed_at_each_point(
    full: Any, old_saved: Path, make: Callable[..., Any], trouble: Any, point: str
) -> None:
    """Killed at any point, the old ledger stands or the new one with its new epoch; the restore repeated ends the same.

    The restored store never has its name with the old epoch.
    """
    extra = full.submit()
    full.close()
    assert trouble.dies_at(point, lambda: restore(full, old_saved))
    fresh = make("full", again=True)
    assert (extra in fresh.ids(), fresh.owners.epoch()) == ((True, 1) if point in BEFORE else (False, 2))
    assert fresh.complete(kind="note")
    fresh.close()
    full.tick()
    restore(full, old_saved)
    fresh = make("full", again=True)
    assert fresh.reader.counts() == dict.fromkeys(JobState, 1)
    assert fresh.owners.epoch() == (2 if point in BEFORE else 3)
    assert not list(full.workspace.own_folder.glob("ledger.sqlite.stage-*"))
    fresh.close()
    for name in kept(full):
        path = full.workspace.own_folder / name
        if not name.endswith(("-wal", "-shm")):
            assert trouble.rows(path, "pragma integrity_check") == [("ok",)]


@pytest.mark.parametrize("point", POINTS)
def test_restore_failing_at_each_point(
    full: Any, old_saved: Path, make: Callable[..., Any], trouble: Any, point: str
) -> None:
    """An error at any point leaves the old ledger or the new one, in use at once, and nothing half-made beside it."""
    extra = full.submit()
    full.close()
    with trouble.fails_at(point), pytest.raises(RuntimeError, match="injected"):
        restore(full, old_saved)
    fresh = make("full", again=True)
    assert (extra in fresh.ids(), fresh.owners.epoch()) == ((True, 1) if point in BEFORE else (False, 2))
    assert not list(full.workspace.own_folder.glob("ledger.sqlite.stage-*"))


@pytest.mark.parametrize("passage", [1, 2, 3])
def test_replacing_a_damaged_ledger_killed_at_each_point(
    place: Any, saved: Path, make: Callable[..., Any], trouble: Any, app: perenne.App, passage: int
) -> None:
    """Killed while a damaged ledger is moved aside, no wrong one stands: it refuses to open until it is repeated."""
    place.close()
    place.workspace.ledger.write_text("not a database")
    assert trouble.dies_at(f"restore.moved_aside:{passage}", lambda: restore(place, saved))
    with pytest.raises(StoreMissing):
        perenne.open(place.workspace.root, app)
    place.tick()
    restore(place, saved)
    fresh = make(again=True)
    assert (fresh.ids(), fresh.owners.epoch()) == ({place.done, place.ran}, 2)
    fresh.close()
    assert len([name for name in kept(place) if not name.endswith(("-wal", "-shm"))]) == 1
    assert any(path.read_bytes() == b"not a database" for path in place.workspace.own_folder.glob("*.replaced-*"))


def test_file_system_without_second_names(
    place: Any, saved: Path, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file cannot have two names the old ledger is moved aside; the rest is the same."""
    place.close()

    def no_link(*names: object, **values: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_link)
    restore(place, saved)
    assert len(kept(place)) == 1
    assert make(again=True).owners.epoch() == 2


def test_restored_beside_what_failed_last(
    place: Any, saved: Path, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When only the last step fails, which makes the files for readers, the restore stands and is not said to fail."""
    place.close()

    def fail(*given: object, **values: object) -> None:
        raise StoreFailed("no room for the WAL")

    monkeypatch.setattr(copies, "settle", fail)
    restore(place, saved)
    assert make(again=True).owners.epoch() == 2
