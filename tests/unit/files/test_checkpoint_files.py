"""Which file is the checkpoint that the ledger names: E-C3 as a table, and the protocol that writes them."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perenne import crashpoints
from perenne.errors import (
    CheckpointCorrupt,
    CheckpointMismatch,
    CheckpointMissing,
    CheckpointUnreadable,
    CheckpointUnsupported,
    DiskLow,
    NotDurable,
    StoreBusy,
    StoreExists,
)
from perenne.files import atomic, checkpoint, record
from perenne.files.checkpoint import Files, Named
from perenne.files.lock import Lock
from perenne.files.record import Checkpoint

JOB = "01990c5e-7a10-7cc2-8f00-000000000001"
ATTEMPT = "a" * 32


def made(generation: int, job: str = JOB) -> bytes:
    return record.encode(Checkpoint(job, "walk", 1, ATTEMPT, 2, generation, 0, 0, None, bytes([generation]) * 9000))


RIGHT, OLDER, FOREIGN = made(5), made(4), made(5, "01990c5e-7a10-7cc2-8f00-000000000002")
NAMED = Named(ATTEMPT, 2, 5, len(RIGHT), hashlib.sha256(RIGHT).hexdigest())

STANDS: dict[str, bytes | None] = {
    "right": RIGHT,
    "absent": None,
    "older": OLDER,
    "of another job": FOREIGN,
    "cut": RIGHT[:-1],
    "longer": RIGHT + b"\0",
    "flipped": RIGHT[:5000] + bytes([RIGHT[5000] ^ 1]) + RIGHT[5001:],
    "empty": b"",
    "other magic": b"RANDOMLY" + RIGHT[8:],
    "other format": RIGHT[:11] + b"\2" + RIGHT[12:],
}
REFUSALS: dict[str, type[Exception]] = {
    "absent": CheckpointMissing,
    "older": CheckpointMismatch,
    "of another job": CheckpointMismatch,
    "cut": CheckpointCorrupt,
    "longer": CheckpointCorrupt,
    "flipped": CheckpointCorrupt,
    "empty": CheckpointCorrupt,
    "other magic": CheckpointCorrupt,
    "other format": CheckpointUnsupported,
    "a folder": CheckpointUnreadable,
}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, JOB)


def put(path: Path, stands: str) -> None:
    if stands == "a folder":
        path.mkdir()
    elif (data := STANDS[stands]) is not None:
        path.write_bytes(data)


@pytest.mark.parametrize(("canonical", "staged"), product([*STANDS, "a folder"], repeat=2))
def test_the_ledger_decides_which_file(files: Files, canonical: str, staged: str) -> None:
    """E-C3: the canonical file if it is the named one; else the stage file, promoted; else one of the five answers.

    Twice is once, and what is refused is left as it is, for a person to look at.
    """
    stage = files.staged(NAMED.attempt, NAMED.number, NAMED.generation)
    put(files.canonical, canonical)
    put(stage, staged)
    if "right" in (canonical, staged):
        assert files.find(NAMED) == RIGHT
        assert files.find(NAMED) == RIGHT
        if canonical != "a folder":
            assert files.canonical.read_bytes() == RIGHT
            assert stage.exists() == (canonical == "right" and staged != "absent")
        return
    before = {path: path.read_bytes() for path in files.folder.iterdir() if path.is_file()}
    both = [stands for stands in (canonical, staged) if stands != "absent"]
    expected = CheckpointUnreadable if "a folder" in both else REFUSALS[both[0] if both else "absent"]
    for _ in range(2):
        with pytest.raises(expected):
            files.find(NAMED)
    assert {path: path.read_bytes() for path in files.folder.iterdir() if path.is_file()} == before


def test_a_larger_file_is_never_read_whole(files: Files) -> None:
    """A file beyond the bound of a record is refused by its size."""
    with files.canonical.open("wb") as file:
        file.truncate(record.RECORD_BYTES + 1)
    with pytest.raises(CheckpointCorrupt, match="the limit is"):
        files.find(NAMED)


def test_a_link_is_not_followed(files: Files, tmp_path: Path) -> None:
    """A symbolic link in the place of a checkpoint is not read."""
    (tmp_path / "elsewhere").write_bytes(RIGHT)
    files.canonical.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointUnreadable):
        files.find(NAMED)


def test_stage_then_promote(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-C2: made under a name of its own, synced, its name synced; renamed later, and the folder synced again."""
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (done.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))), fsync(fd))[1]
    )
    monkeypatch.setattr(os, "replace", lambda one, two: (done.append("rename"), replace(one, two))[1])
    staged = files.staged(ATTEMPT, 2, 5)
    files.stage(staged, RIGHT)
    files.promote(staged)
    folder = files.folder.name
    assert done == [staged.name, folder, "rename", folder]
    assert staged.name == f"{JOB}.2-aaaaaaaa.5.next"
    assert files.find(NAMED) == RIGHT


def test_a_name_is_never_used_twice(files: Files) -> None:
    """A stage file that is there is not written over."""
    staged = files.staged(ATTEMPT, 2, 5)
    files.stage(staged, RIGHT)
    with pytest.raises(StoreExists):
        files.stage(staged, OLDER)
    assert staged.read_bytes() == RIGHT


@pytest.mark.parametrize(
    ("call", "number", "refusal"), [("write", errno.ENOSPC, DiskLow), ("fsync", errno.EIO, Exception)]
)
def test_a_stage_that_fails_leaves_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch, call: str, number: int, refusal: type[Exception]
) -> None:
    """A file whose bytes or name may not be on the disk is removed; its sync is not tried again."""
    calls: list[Any] = []

    def fails(*given: Any) -> Any:
        calls.append(given)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(refusal):
        files.stage(files.staged(ATTEMPT, 2, 5), RIGHT)
    assert len(calls) == 1
    assert list(files.folder.iterdir()) == []


def test_a_folder_that_cannot_be_synced_is_told(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a rename whose folder could not be synced the file has its name, and is said not to be durable."""
    staged = files.staged(ATTEMPT, 2, 5)
    files.stage(staged, RIGHT)

    def fails(path: Path) -> None:
        raise NotDurable("the folder could not be synced")

    monkeypatch.setattr(atomic, "sync_folder", fails)
    with pytest.raises(NotDurable):
        files.promote(staged)
    assert files.canonical.read_bytes() == RIGHT


def test_the_lock_is_waited_for_and_its_holder_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """PB-7: two never stage or look at once; who holds the lock for too long is named."""
    monkeypatch.setattr(checkpoint, "PATIENCE_S", 0.05)
    held = Lock.take(files.lock)
    assert held is not None
    with held, pytest.raises(StoreBusy, match=rf"this process \({os.getpid()}\) held its lock"), files.locked():
        pass
    with files.locked():
        assert Lock.take(files.lock) is None


def test_many_take_turns(files: Files) -> None:
    """PB-7: whoever stages, commits and promotes under the lock leaves one canonical file, and no other."""
    row: dict[str, Named] = {}

    def save(number: int) -> None:
        for generation in range(1, 6):
            data = record.encode(msgspec.structs.replace(record.decode(RIGHT), number=number, generation=generation))
            with files.locked():
                staged = files.staged(f"{number}" * 8, number, generation)
                files.stage(staged, data)
                row["named"] = Named(f"{number}" * 8, number, generation, len(data), hashlib.sha256(data).hexdigest())
                files.promote(staged)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert record.decode(files.find(row["named"])).number == row["named"].number
    assert sorted(path.suffix for path in files.folder.iterdir()) == [".chk", ".lock"]


def test_leftovers_are_what_the_ledger_does_not_name(files: Files) -> None:
    """Stage files of other generations and attempts are leftovers; the named one and other jobs' files are not."""
    for generation in (4, 5, 6):
        files.stage(files.staged(ATTEMPT, 2, generation), made(generation))
    other = Files(files.folder, "01990c5e-7a10-7cc2-8f00-000000000002")
    other.stage(other.staged(ATTEMPT, 2, 4), OLDER)
    files.remove(files.leftovers(NAMED))
    left = sorted(path.name for path in files.folder.iterdir())
    assert left == [f"{JOB}.2-aaaaaaaa.5.next", other.staged(ATTEMPT, 2, 4).name]


def test_points_are_passed_in_order(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-P4: between two neighbouring points there is one durable call."""
    passed: list[str] = []
    for module in (atomic, checkpoint):
        monkeypatch.setattr(module, "crash_point", passed.append)
    staged = files.staged(ATTEMPT, 2, 5)
    files.stage(staged, RIGHT)
    files.promote(staged)
    assert passed == [f"checkpoint.{name}" for name in ("staged", "name_synced", "renamed", "folder_synced")]
    assert set(passed) <= set(crashpoints.POINTS)
