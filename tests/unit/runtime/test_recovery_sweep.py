"""A worker's first look removes what others left that died before they signed in, or after they signed out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import perenne
from perenne import App, Context, Kind, crashpoints
from perenne.runtime import owner
from perenne.runtime.wake import Bell


class Nothing(msgspec.Struct, frozen=True):
    pass


def do_nothing(context: Context, given: Nothing) -> None:
    return None


APP = App("sweep", (Kind("sweep.nothing", 1, do_nothing, Nothing),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return perenne.create(tmp_path / "workspace", APP, name="sweep", specimen=True).root


def left(root: Path) -> list[str]:
    """Names of the locks, pipes and private folders that are there."""
    return sorted(name for folder in ("owners", "wake", "stage") for name in os.listdir(root / ".perenne" / folder))


def work(root: Path) -> None:
    with perenne.open(root, APP, access="work") as engine:
        engine.work()


def dies_at(point: str, act: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.environ[crashpoints.VARIABLE] = point
            act()
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("point", ["wake.pipe_made", "wake.pipe_named", "owner.joined", "owner.left"])
def test_next_worker_leaves_nothing(root: Path, point: str) -> None:
    """Whether it had signed in or out, the lock and the pipe of a dead worker are gone after the next one."""
    dies_at(point, lambda: work(root))
    assert left(root)
    work(root)
    assert left(root) == []


def test_living_are_left_alone(root: Path) -> None:
    """A worker that has its lock but has not signed in yet keeps it, and who waits keeps its pipe."""
    workspace = perenne.open(root, APP).workspace
    beginner = owner.take(workspace, alone=False)
    with Bell(workspace.wake_folder) as bell:
        work(root)
        assert left(root) == sorted([f"{beginner.owner.id}.lock", bell.path.name])
    beginner.release()
    assert left(root) == []
