"""The file of the snapshot: written soon after a change and once at the end, seldom, in turn, never backwards."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Kind
from perenne.files import atomic
from perenne.files.lock import Lock
from perenne.runtime import snapshot, snapshot_keeper

LIMIT_S = 30.0
APP = App("kept", [Kind("kept.double", 1, lambda context, number: 2 * number, int)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return perenne.create(tmp_path / "w", APP, name="Kept").root


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the file was written, in this process."""
    times: list[float] = []
    write = atomic.write

    def noted(path: Path, data: bytes, **more: Any) -> None:
        if path.name == snapshot.NAME:
            times.append(time.monotonic())
        write(path, data, **more)

    monkeypatch.setattr(atomic, "write", noted)
    return times


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)  # reason: whoever writes a snapshot rings no bell


def shown(root: Path, count: int) -> bool:
    return (root / snapshot.NAME).exists() and sum(snapshot.read(root).counts.values()) == count


def test_a_change_is_shown_while_the_process_lives(root: Path) -> None:
    """Soon after a change the file tells of it, private, and without leaving anything beside it."""
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
        until(lambda: shown(root, 1))
        engine.submit("kept.double", 2)
        until(lambda: shown(root, 2))
    assert stat.S_IMODE((root / snapshot.NAME).stat().st_mode) == 0o600
    assert sorted(path.name for path in root.iterdir()) == [".perenne", snapshot.NAME, "workspace.toml"]


def test_the_last_change_is_shown_at_the_end(root: Path) -> None:
    """A process that ends at once shows what it did before it is gone."""
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
    assert shown(root, 1)
    with perenne.open(root, APP, access="work") as engine:
        engine.work()
    read = snapshot.read(root)
    assert (read.counts, read.workers) == ({"COMPLETED": 1}, [])


def test_who_changes_nothing_writes_nothing(root: Path, writes: list[float]) -> None:
    """Neither a reader nor an engine that only looked writes, and a run that did nothing leaves the same bytes."""
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
    before, count = (root / snapshot.NAME).read_bytes(), len(writes)
    for access in ("read", "write"):
        with perenne.open(root, APP, access=access) as engine:
            engine.view.snapshot()
    assert len(writes) == count
    assert not [one for one in threading.enumerate() if one.name == "perenne-snapshot"]
    assert (root / snapshot.NAME).read_bytes() == before


def test_crowds_of_changes_are_few_writes(root: Path, writes: list[float]) -> None:
    """However many changes there are, two writes of a process are not nearer than a fifth of a second, but the last."""
    with perenne.open(root, APP) as engine:
        ends = time.monotonic() + 1.0
        while time.monotonic() < ends:
            engine.cancel(engine.submit("kept.double", 1).job_id)
    assert len(writes) >= 3
    gaps = [after - before for before, after in pairwise(writes[:-1])]
    assert min(gaps) > snapshot_keeper.EVERY_S * 0.9


def test_a_later_state_is_never_replaced(root: Path) -> None:
    """A file of a higher epoch or revision stays; a lower one, another workspace's, or no snapshot at all does not."""
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
    file = root / snapshot.NAME
    document = json.loads(file.read_bytes())
    higher = [{"revision": 10**9}, {"epoch": 2, "revision": 0}]
    lower = [{"revision": 0}, {"epoch": 2, "workspace": "00000000-0000-4000-8000-000000000009"}]
    for number, (change, stays) in enumerate([(one, True) for one in higher] + [(one, False) for one in lower]):
        written = json.dumps(document | change).encode()
        file.write_bytes(written)
        with perenne.open(root, APP) as engine:
            engine.submit("kept.double", number)
        assert (file.read_bytes() == written) == stays, change
    for other in (b"", b"{", b'{"epoch": "x"}'):
        file.write_bytes(other)
        with perenne.open(root, APP) as engine:
            engine.submit("kept.double", 1)
        assert snapshot.read(root).epoch == 1


def test_writers_take_turns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process is at it nobody writes; one that never ends is given up, and the log says so."""
    monkeypatch.setattr(snapshot_keeper, "LOCK_S", 0.05)
    held = Lock.take(root / ".perenne" / "snapshot.lock")
    assert held is not None
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
    assert not (root / snapshot.NAME).exists()
    assert "snapshot_not_written" in (root / ".perenne" / "logs" / "engine.jsonl").read_text()
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
        held.release()
        until(lambda: shown(root, 2))


def test_a_file_that_cannot_be_written_costs_no_job(root: Path) -> None:
    """Where a folder has the file's name, work goes on, and the log says why there is no snapshot."""
    (root / snapshot.NAME).mkdir()
    with perenne.open(root, APP, access="work") as engine:
        job = engine.submit("kept.double", 4)
        engine.work()
        assert engine.job(job.job_id).result == b"8"
    assert "snapshot_not_written" in (root / ".perenne" / "logs" / "engine.jsonl").read_text()


def test_what_a_killed_writer_left_is_removed(root: Path) -> None:
    """A stage file of a writer that died goes with the next write; a link is replaced and not followed."""
    (root / f"{snapshot.NAME}.stage-{'0' * 32}").write_text("half")
    (root / "elsewhere").write_text("mine")
    (root / snapshot.NAME).symlink_to(root / "elsewhere")
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
    assert not list(root.glob("*.stage-*"))
    assert (root / "elsewhere").read_text() == "mine"
    assert shown(root, 1)


def test_what_others_left_meanwhile_is_removed(root: Path) -> None:
    """A process that wrote before removes with its next write what another one left since; so it never accumulates."""
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
        until(lambda: shown(root, 1))
        for number in range(3):
            (root / f"{snapshot.NAME}.stage-{number:032}").write_text("half")
        engine.submit("kept.double", 2)
    assert not list(root.glob("*.stage-*"))


def test_what_cannot_be_removed_keeps_no_snapshot_from_being_written(root: Path) -> None:
    """A folder that bears the name of a stage file stays, and the file is written all the same."""
    (root / f"{snapshot.NAME}.stage-{'0' * 32}").mkdir()
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
    assert shown(root, 1)


def test_a_forked_child_writes_nothing(root: Path) -> None:
    """A child that inherits an engine and closes it leaves the snapshot to its parent."""
    with perenne.open(root, APP) as engine:
        engine.submit("kept.double", 1)
        until(lambda: shown(root, 1))
        engine.submit("kept.double", 2)
        child = os.fork()
        if child == 0:
            engine.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert shown(root, 2)
