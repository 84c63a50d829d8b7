"""A new workspace on a file system that nobody knows: tried with two processes, accepted by name or refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perenne import App, create, filesystem, open
from perenne.errors import InvalidInput, UnsafeFilesystem
from perenne.files import ground, lockprobe
from perenne.files import workspace as folder
from perenne.filesystem import Verdict
from perenne.runtime.doctor_folder import file_system

APP = App("ground")


def standing_on(monkeypatch: pytest.MonkeyPatch, kind: Any, name: str, *, own_disk: bool) -> None:
    verdict = Verdict(kind, name, "/mnt/x", "the reason", own_disk)
    monkeypatch.setattr(filesystem, "judge", lambda _: verdict)


def test_trial_of_a_good_folder_finds_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    """Where locks, shared memory, rename and sync work there is no fault, and no file stays."""
    assert lockprobe.fault(tmp_path) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("print(0, 1, 1)", "a lock of one process does not keep another one out"),
        ("print(1, 0, 1)", "a lock of one process does not keep another one out"),
        ("print(1, 1, 0)", "do not see each other's writes"),
        ("print(1, 1, 1)", "do not see each other's writes"),  # it did not write its mark
        (lockprobe.OTHER.replace("1\n    return 0", "1\n    return 1"), "that was given back still keeps"),
        ("raise SystemExit(1)", "a trial of its locks failed"),
        ("print('nonsense')", "a trial of its locks failed"),
        ("", "a trial of its locks failed"),
    ],
)
def test_each_fault_has_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, words: str) -> None:
    """Whatever the second process meets instead becomes the sentence that says so, and no file stays."""
    monkeypatch.setattr(lockprobe, "OTHER", other)
    assert words in str(lockprobe.fault(tmp_path))
    assert not list(tmp_path.iterdir())


def test_unwritable_folder_is_a_fault(tmp_path: Path) -> None:
    """A folder in which nothing can be made fails its trial, with the reason of the system."""
    assert "No such file" in str(lockprobe.fault(tmp_path / "absent"))


def test_unknown_type_on_an_own_disk_is_accepted_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What works on a disk of this machine is accepted, recorded in the manifest, opened again, and shown by doctor."""
    standing_on(monkeypatch, "unknown", "foofs", own_disk=True)
    made = create(tmp_path / "w", APP, name="Trial")
    assert made.allow_filesystems == folder.read(tmp_path / "w").allow_filesystems == ("foofs",)
    with open(tmp_path / "w", APP) as engine:
        (found,) = file_system(engine.workspace)
    assert (found.verdict, "foofs" in found.sentence, "allow_filesystems" in found.sentence) == ("warn", True, True)


def test_unknown_type_that_fails_its_trial_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that fails is refused with what failed, and nothing is made."""
    standing_on(monkeypatch, "unknown", "foofs", own_disk=True)
    monkeypatch.setattr(lockprobe, "OTHER", "print(0, 0, 1)")
    with pytest.raises(UnsafeFilesystem, match=r"foofs.*the reason, and a lock of one process does not keep another"):
        create(tmp_path / "w", APP, name="Trial")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "own_disk"), [("unknown", False), ("remote", False), ("remote", True)])
def test_a_good_trial_proves_nothing_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, own_disk: bool
) -> None:
    """A network's file system, and an unknown one on no disk of ours, are refused untried."""
    standing_on(monkeypatch, kind, "foofs", own_disk=own_disk)
    monkeypatch.setattr(lockprobe, "fault", lambda _: pytest.fail("it was tried"))
    with pytest.raises(UnsafeFilesystem, match="foofs"):
        ground.accepted(tmp_path / "w")


@pytest.mark.parametrize("kind", ["unknown", "remote"])
def test_a_person_may_accept_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """An explicit name overrides, is recorded, and is shown; another name does not help."""
    standing_on(monkeypatch, kind, "nfs4", own_disk=False)
    with pytest.raises(UnsafeFilesystem):
        create(tmp_path / "w", APP, name="Trial", allow_filesystems=["nfs"])
    made = create(tmp_path / "w", APP, name="Trial", allow_filesystems=["nfs4"])
    assert 'allow_filesystems = ["nfs4"]' in made.manifest.read_text()
    with open(tmp_path / "w", APP) as engine:
        assert [found.verdict for found in file_system(engine.workspace)] == ["warn"]


def test_safe_ground_records_nothing(tmp_path: Path) -> None:
    """On a safe file system the manifest accepts nothing."""
    if filesystem.judge(tmp_path).kind in ("unknown", "remote"):
        pytest.skip(f"NOT CHECKED: {tmp_path} stands on no safe file system")
    assert create(tmp_path / "w", APP, name="Trial").allow_filesystems == ()


@pytest.mark.parametrize("wrong", ["nfs4", [""], [1], None])
def test_a_name_that_is_none_is_refused(tmp_path: Path, wrong: Any) -> None:
    """What is no list of names is refused by its field, and nothing is made."""
    with pytest.raises(InvalidInput, match="allow_filesystems"):
        create(tmp_path / "w", APP, name="Trial", allow_filesystems=wrong)
    assert os.listdir(tmp_path) == []
