"""Pipes of dead processes go, also those that never got their name; pipes of the living stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perenne import crashpoints
from perenne.runtime.wake import Bell, remove_dead


def dies_at(point: str, folder: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            crashpoints.arm({crashpoints.VARIABLE: point}, specimen=True)
            Bell(folder).close()
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("point", ["wake.pipe_made", "wake.pipe_named"])
def test_pipe_of_a_dead_process_goes(tmp_path: Path, point: str) -> None:
    """Whether its process died before or after the pipe got its name, the next recovery removes it."""
    dies_at(point, tmp_path)
    assert len(os.listdir(tmp_path)) == 1
    remove_dead(tmp_path)
    assert os.listdir(tmp_path) == []


def test_pipe_of_a_living_process_stays(tmp_path: Path) -> None:
    """A bell that somebody waits for survives a recovery."""
    with Bell(tmp_path) as bell:
        remove_dead(tmp_path)
        assert bell.path.exists()
    assert os.listdir(tmp_path) == []


def test_unfinished_pipe_is_made_again(tmp_path: Path) -> None:
    """A process whose unfinished pipe a recovery took for a dead one makes another and is heard."""
    passed: list[str] = []

    def recover(point: str) -> None:
        passed.append(point)
        if passed == ["wake.pipe_made"]:
            remove_dead(tmp_path)

    crashpoints.observe(recover)
    try:
        with Bell(tmp_path) as bell:
            bell.ring()
            assert bell.wait(0)
            assert os.listdir(tmp_path) == [bell.path.name]
    finally:
        crashpoints.observe(None)
    assert passed.count("wake.pipe_made") == 2
