"""Settings: who wins, where a value came from, and one sentence for what is wrong."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from perenne import config
from perenne.core import limits
from perenne.errors import InvalidInput, StoreFailed

ID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a workspace in it that says 2 slots, and nothing else."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "workspace.toml").write_text(f'id = "{ID}"\n[settings]\nslots = 2\n')
    return tmp_path


def say(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.perenne]\n{text}\n")


def test_a_folder_that_cannot_be_looked_through_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the machine is not taken for a folder without a workspace."""

    def fail(path: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(StoreFailed, match="name the workspace"):
        config.locate(project)


def test_each_layer_wins_over_the_next(project: Path) -> None:
    """Default, workspace.toml, pyproject.toml, environment, argument: each hides those before it, and is named."""
    assert config.read({}, {}, project / "elsewhere").slots == 1
    found = config.read({}, {}, project)
    assert (found.slots, found.sources["slots"]) == (2, str(project / "work" / "workspace.toml"))
    say(project, "slots = 3")
    found = config.read({}, {}, project)
    assert (found.slots, found.sources["slots"]) == (3, f"{project / 'pyproject.toml'} [tool.perenne]")
    found = config.read({}, {"PERENNE_SLOTS": "4"}, project)
    assert (found.slots, found.sources["slots"]) == (4, "PERENNE_SLOTS")
    found = config.read({"slots": 5, "app": None}, {"PERENNE_SLOTS": "4"}, project)
    assert (found.slots, found.sources["slots"]) == (5, "argument")
    assert found.sources["color"] == "default"


def test_a_list_is_a_list_or_a_text_with_commas(project: Path) -> None:
    """What a file writes as a list stands in a variable with commas."""
    say(project, 'allow_filesystems = ["fuse.sshfs"]')
    assert config.read({}, {}, project).allow_filesystems == ("fuse.sshfs",)
    found = config.read({}, {"PERENNE_ALLOW_FILESYSTEMS": "nfs4, fuse.sshfs"}, project)
    assert found.allow_filesystems == ("nfs4", "fuse.sshfs")


def test_the_nearest_pyproject_counts(project: Path) -> None:
    """It is looked for upwards; a folder and an app in it are meant from where it stands."""
    say(project, 'workspace = "work"\napp = "shop:app"')
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    found = config.read({}, {}, deep)
    assert (found.workspace, found.app, found.app_folder) == (project / "work", "shop:app", project)
    (deep / "pyproject.toml").write_text("")
    assert config.read({}, {}, deep).app is None


def test_the_only_workspace_below_is_found(project: Path) -> None:
    """Where nobody says it: this folder, else the only one below, else none."""
    assert config.locate(project) == project / "work"
    assert config.locate(project / "work") == project / "work"
    (project / "other").mkdir()
    (project / "other" / "workspace.toml").touch()
    assert config.locate(project) is None


@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        ("slots = 0", {}, "slots is 0; give a whole number from 1 to 1024"),
        ("slots = 1025", {}, "slots is 1025; give a whole number from 1 to 1024"),
        ("slots = true", {}, "slots is True; give a whole number"),
        ('slots = "many"', {}, "slots is 'many'; give a whole number"),
        ("slots = 1.5", {}, "slots is 1.5; give a whole number"),
        ("slots = [1]", {}, "slots is [1]; give a whole number"),
        ("slot = 1", {}, "slot is not a setting; did you mean slots?"),
        ("zzz = 1", {}, "zzz is not a setting; known are workspace, app, slots, coroutines, allow_"),
        ('color = "red"', {}, "color is 'red'; give one of auto, always, never"),
        ('app = ""', {}, "app is ''; give an installed application, or module:name"),
        ("workspace = 3", {}, "workspace is 3; give a folder"),
        ("allow_filesystems = [1]", {}, "allow_filesystems is [1]; give types of file systems, such as fuse.sshfs"),
        ("", {"PERENNE_SLOTS": ""}, "environment: PERENNE_SLOTS is ''; give a whole number"),
        ("", {"PERENNE_WORKSPACE": ""}, "environment: PERENNE_WORKSPACE is ''; give a folder"),
        ("", {"PERENNE_LOG_LEVEL": "debug"}, "PERENNE_LOG_LEVEL is 'debug'; give one of info, warning, error"),
    ],
)
def test_what_is_wrong_is_one_sentence(project: Path, text: str, environment: dict[str, str], said: str) -> None:
    """Source, field, value and limit are named; an unknown field gets the nearest name."""
    say(project, text)
    with pytest.raises(InvalidInput) as caught:
        config.read({}, environment, project)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    if text:
        assert str(project / "pyproject.toml") in str(caught.value)


def test_all_faults_are_told_at_once(project: Path) -> None:
    """Whoever wins, each wrong value of each layer is told."""
    say(project, 'slots = 0\ncolor = "red"')
    (project / "work" / "workspace.toml").write_text("[settings]\nslts = 1\napp = 'x'\n")
    with pytest.raises(InvalidInput) as caught:
        config.read({"slots": 2}, {"PERENNE_COLOR": "blue"}, project)
    told = str(caught.value)
    assert all(
        word in told for word in ("slots is 0", "'red'", "'blue'", "slts is not a setting", "app is not a setting")
    )


@pytest.mark.parametrize("text", ["[tool", "tool = 1", "[tool]\nperenne = 1", "\x00"])
def test_a_pyproject_that_cannot_be_read_is_named(project: Path, text: str) -> None:
    """The file is named, and nothing is guessed."""
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"pyproject\.toml"):
        config.read({}, {}, project)


def test_a_variable_that_means_nothing_is_told() -> None:
    """A misspelt variable is named with the nearest; those of others are nobody's business."""
    (told,) = config.unknown_variables({"PERENNE_SLOT": "3", "PERENNE_DEBUG": "1", "PATH": "x", "PERENNE_APP": "y"})
    assert told == "PERENNE_SLOT means nothing; did you mean PERENNE_SLOTS?"


def test_a_bound_of_a_setting_is_that_of_the_engine() -> None:
    """The command line refuses no number of coroutines that the engine takes, and takes none that it refuses."""
    assert config.Settings().coroutines == limits.COROUTINES
    assert (config.COROUTINES[0], config.COROUTINES[-1]) == (1, limits.COROUTINES_MOST)
