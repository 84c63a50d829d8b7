"""Files appear whole or not at all, whatever fails and wherever the process dies."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perenne import crashpoints
from perenne.errors import DiskLow, InvalidInput, NotDurable, StoreExists, StoreFailed
from perenne.files import atomic

PROTOCOLS = ("export", "import", "publish")


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def failing_at(call: Callable[..., object], turn: int, code: int) -> Callable[..., object]:
    """The call, which fails at its `turn`-th use, from 1."""
    seen: list[None] = []

    def sometimes(*args: object, **named: object) -> object:
        seen.append(None)
        if len(seen) == turn:
            raise OSError(code, os.strerror(code))
        return call(*args, **named)

    return sometimes


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("data", [b"", b"new", b"x" * 3_000_000], ids=["empty", "small", "large"])
def test_written_bytes_are_read_back(tmp_path: Path, protocol: str, data: bytes) -> None:
    """What was written is what stands, in a new file and over an old one, and no stage file is left."""
    path = tmp_path / "result.json"
    for _ in range(2):
        atomic.write(path, data, protocol=protocol)
        assert path.read_bytes() == data
        assert mode_of(path) == 0o600
        assert os.listdir(tmp_path) == ["result.json"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_mode_is_exact(tmp_path: Path, umask: int) -> None:
    """The mode of a file and of each new folder is the one asked for, whatever the umask."""
    before = os.umask(umask)
    try:
        atomic.make_folder(tmp_path / "a" / "b", mode=0o750)
        atomic.write(tmp_path / "a" / "b" / "file", b"1", protocol="export", mode=0o644)
    finally:
        os.umask(before)
    assert [mode_of(tmp_path / name) for name in ("a", "a/b", "a/b/file")] == [0o750, 0o750, 0o644]


def test_steps_come_in_the_durable_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it is renamed and its folder after, with one crash point behind each step."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def seen_fsync(descriptor: int) -> None:
        steps.append("sync folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "sync file")
        fsync(descriptor)

    def seen_replace(old: Path, new: Path) -> None:
        assert re.fullmatch(r"x\.stage-[0-9a-f]{32}", old.name)
        assert old.read_bytes() == b"data"
        steps.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    crashpoints.observe(steps.append)
    try:
        atomic.write(tmp_path / "x", b"data", protocol="import")
    finally:
        crashpoints.observe(None)
    assert steps == ["sync file", "import.staged", "rename", "import.renamed", "sync folder", "import.folder_synced"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that takes three bytes at a time still gets all of them."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:3])))
    atomic.write(tmp_path / "x", b"0123456789", protocol="export")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


@pytest.mark.parametrize("call", ["write", "fchmod", "fsync", "replace"])
@pytest.mark.parametrize(
    ("code", "wanted"), [(errno.EIO, StoreFailed), (errno.ENOSPC, DiskLow), (errno.EDQUOT, DiskLow)]
)
def test_failure_leaves_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, wanted: type[Exception]
) -> None:
    """When writing, syncing or renaming fails the old file stands untouched and the stage file is gone."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, failing(code))
    with pytest.raises(wanted, match=re.escape(os.strerror(code))):
        atomic.write(path, b"new", protocol="export")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_failed_sync_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose sync failed is thrown away: a second sync could claim what the first one lost."""
    monkeypatch.setattr(os, "fsync", failing_at(os.fsync, 1, errno.EIO))
    with pytest.raises(StoreFailed):
        atomic.write(tmp_path / "x", b"new", protocol="export")
    assert os.listdir(tmp_path) == []


def test_interruption_leaves_no_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption from the keyboard removes the stage file like a failure does."""

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic.write(tmp_path / "x", b"new", protocol="export")
    assert os.listdir(tmp_path) == []


def test_folder_sync_failure_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When only the folder cannot be synced the new bytes stand, and the error says that they are not yet durable."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing_at(os.fsync, 2, errno.EIO))
    with pytest.raises(NotDurable, match=str(tmp_path)):
        atomic.write(path, b"new", protocol="export")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x"]
    atomic.sync_folder(tmp_path)


def test_link_is_replaced_not_followed(tmp_path: Path) -> None:
    """Writing over a symbolic link replaces the link and leaves what it pointed to."""
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("target")
    atomic.write(tmp_path / "link", b"new", protocol="export")
    assert (tmp_path / "target").read_bytes() == b"kept"
    assert not (tmp_path / "link").is_symlink()


def test_writing_over_a_folder_fails_cleanly(tmp_path: Path) -> None:
    """A folder is never replaced by a file, and no stage file is left."""
    (tmp_path / "x").mkdir()
    with pytest.raises(StoreFailed, match=r"x could not be replaced"):
        atomic.write(tmp_path / "x", b"new", protocol="export")
    assert os.listdir(tmp_path) == ["x"]


def test_writing_into_a_missing_folder_names_the_file(tmp_path: Path) -> None:
    """A missing folder is one clear error."""
    with pytest.raises(StoreFailed, match=r"check that its folder exists"):
        atomic.write(tmp_path / "none" / "x", b"new", protocol="export")


def test_unknown_protocol_is_refused_before_anything(tmp_path: Path) -> None:
    """A protocol without crash points is refused, naming those that exist, and nothing is written."""
    with pytest.raises(InvalidInput, match=r"export, import, publish"):
        atomic.write(tmp_path / "x", b"new", protocol="wish")
    with pytest.raises(InvalidInput, match=r"export, import, publish"):
        atomic.promote(tmp_path / "x", tmp_path / "y", protocol="wish")
    assert os.listdir(tmp_path) == []


def test_stage_and_promote_are_separate_steps(tmp_path: Path) -> None:
    """A caller may choose the stage name, and until it promotes nothing is replaced."""
    staged, path = tmp_path / "x.7.next", tmp_path / "x"
    path.write_bytes(b"old")
    atomic.stage(staged, b"new", protocol="publish")
    assert path.read_bytes() == b"old"
    assert mode_of(staged) == 0o600
    atomic.promote(staged, path, protocol="publish")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("make", [lambda p: p.write_bytes(b"theirs"), lambda p: p.symlink_to("nowhere")])
def test_stage_name_is_never_taken_over(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A stage name that exists, even as a dangling link, is refused and left as it is."""
    staged = tmp_path / "x.next"
    make(staged)
    before = os.readlink(staged) if staged.is_symlink() else staged.read_bytes()
    with pytest.raises(StoreExists, match=r"choose another"):
        atomic.stage(staged, b"mine", protocol="publish")
    assert (os.readlink(staged) if staged.is_symlink() else staged.read_bytes()) == before


def test_failed_promotion_keeps_the_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that could not be promoted stays, since a ledger may already name it."""
    atomic.stage(tmp_path / "s", b"new", protocol="publish")
    monkeypatch.setattr(os, "replace", failing(errno.EIO))
    with pytest.raises(StoreFailed):
        atomic.promote(tmp_path / "s", tmp_path / "x", protocol="publish")
    assert os.listdir(tmp_path) == ["s"]


DYING_WRITER = """
import os, sys
from pathlib import Path
from perenne import crashpoints
from perenne.files import atomic
crashpoints.arm(os.environ, specimen=True)
atomic.write(Path(sys.argv[1]), b"new" * 100_000, protocol=sys.argv[2])
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("step", "content", "stages"), [("staged", b"old", 1), ("renamed", b"new", 0), ("folder_synced", b"new", 0)]
)
def test_death_leaves_old_or_new(tmp_path: Path, protocol: str, step: str, content: bytes, stages: int) -> None:
    """A process killed at any step leaves the whole old file or the whole new one, and at most one stage file."""
    path = tmp_path / "x"
    path.write_bytes(b"old" * 100_000)
    environment = {**os.environ, crashpoints.VARIABLE: f"{protocol}.{step}"}
    done = subprocess.run([sys.executable, "-c", DYING_WRITER, str(path), protocol], env=environment, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == content * 100_000
    left = [name for name in os.listdir(tmp_path) if name != "x"]
    assert len(left) == stages
    assert all(re.fullmatch(r"x\.stage-[0-9a-f]{32}", name) for name in left)


def test_new_folders_are_synced_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new folder is made durable in its own parent, from the top down; a second call does nothing."""
    synced: list[Path] = []
    monkeypatch.setattr(atomic, "sync_folder", synced.append)
    wanted = tmp_path / "a" / "b" / "c"
    atomic.make_folder(wanted)
    a, b = tmp_path / "a", tmp_path / "a" / "b"
    assert synced == [a, tmp_path, b, a, wanted, b]
    assert [mode_of(folder) for folder in (a, b, wanted)] == [0o700] * 3
    atomic.make_folder(wanted)
    assert len(synced) == 6


def test_existing_folders_keep_their_mode(tmp_path: Path) -> None:
    """Folders that exist already stay as they are."""
    (tmp_path / "a").mkdir(mode=0o755)
    (tmp_path / "a").chmod(0o755)
    atomic.make_folder(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a") == 0o755


def test_folder_made_by_another_in_between_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losing the race to make a folder is no failure."""
    mkdir = os.mkdir

    def late(path: Path, mode: int) -> None:
        mkdir(path, mode)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", late)
    atomic.make_folder(tmp_path / "a")
    assert (tmp_path / "a").is_dir()


def test_file_in_the_way_of_a_folder_is_refused(tmp_path: Path) -> None:
    """A file where a folder should be is named, and stays."""
    (tmp_path / "a").write_bytes(b"file")
    with pytest.raises(StoreExists, match=r"a could not be made as a folder"):
        atomic.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a").read_bytes() == b"file"
