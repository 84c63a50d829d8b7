"""Bells wake whoever waits, at once and never late; ringing never waits for anybody."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from perenne.runtime.wake import Bell, Bells, remove_dead

LIMIT_S = 20.0
LONG_AGO_NS = 1_700_000_000_123_456_789


@pytest.fixture
def bells(tmp_path: Path) -> Iterator[Bells]:
    made = Bells(tmp_path)
    yield made
    made.close()


def test_a_ring_ends_the_wait(tmp_path: Path, bells: Bells) -> None:
    """A bell that is rung while its process sleeps wakes it, and the bell is what it hears."""
    with Bell(tmp_path) as bell:
        heard: list[object] = []
        sleeper = threading.Thread(target=lambda: heard.extend(bell.wait(LIMIT_S)), daemon=True)
        sleeper.start()
        assert bells.ring() == 1
        sleeper.join(LIMIT_S)
        assert heard == [bell]


def test_a_ring_before_the_wait_is_not_lost(tmp_path: Path, bells: Bells) -> None:
    """Whoever is rung between its look at the ledger and its sleep does not sleep; many rings are heard as one."""
    with Bell(tmp_path) as bell:
        for _ in range(5):
            bells.ring()
        assert bell.wait(None) == [bell]
        assert bell.wait(0) == []


def test_every_bell_is_rung(tmp_path: Path, bells: Bells) -> None:
    """All who wait are woken, each by its own pipe."""
    with ExitStack() as hung:
        waiting = [hung.enter_context(Bell(tmp_path)) for _ in range(5)]
        assert bells.ring() == 5
        assert all(bell.wait(0) == [bell] for bell in waiting)
    assert bells.ring() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_bell_hung_a_moment_ago_is_rung(tmp_path: Path, bells: Bells) -> None:
    """However quickly bells come and go, within one tick of the file system's clock too, none is passed over."""
    for number in range(300):
        with Bell(tmp_path) as bell:
            assert bells.ring() == 1, number
            assert bell.wait(0) == [bell]
        assert bells.ring() == 0


def test_a_folder_that_rested_is_read_again_when_it_changed(
    tmp_path: Path, bells: Bells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that has not changed for long is not read for each ring; a new bell in it is rung all the same."""
    listed: list[object] = []
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: listed.append(folder) or real(folder))
    os.utime(tmp_path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    for _ in range(10):
        assert bells.ring() == 0
    assert len(listed) == 1
    with Bell(tmp_path):
        assert bells.ring() == 1


def test_a_clock_of_whole_seconds_is_not_relied_on(tmp_path: Path, bells: Bells) -> None:
    """Where a file system knows only seconds, two changes may look like one; the folder is read each time."""
    second = LONG_AGO_NS // 10**9 * 10**9
    os.utime(tmp_path, ns=(second, second))
    assert bells.ring() == 0
    with Bell(tmp_path):
        os.utime(tmp_path, ns=(second, second))
        assert bells.ring() == 1


def test_a_bell_has_its_name_only_with_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe can be opened to ring as soon as it has its name: until then it is hidden."""
    seen: list[tuple[list[str], bool]] = []
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        names = [path.name for path in tmp_path.iterdir()]
        os.close(os.open(source, os.O_WRONLY | os.O_NONBLOCK))  # has a reader: else this raises ENXIO
        seen.append((names, target.exists()))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with Bell(tmp_path) as bell:
        assert [names[0].startswith(".") for names, _ in seen] == [True]
        assert bell.path.name in [path.name for path in tmp_path.iterdir()]


def test_a_full_pipe_holds_nobody_up(tmp_path: Path, bells: Bells) -> None:
    """A process that is stopped for long and rung without end costs the ringers nothing, and hears one ring."""
    with Bell(tmp_path) as bell:
        for _ in range(70_000):
            bell.ring()
        assert bells.ring() == 1
        assert bell.wait(0) == [bell]
        assert bell.wait(0) == []


def dead_pipe(folder: Path, name: str) -> Path:
    os.mkfifo(folder / name)
    return folder / name


def test_the_dead_hear_nothing(tmp_path: Path, bells: Bells) -> None:
    """A pipe without a reader is neither rung nor waited for; the living beside it are rung."""
    dead_pipe(tmp_path, "a")
    with Bell(tmp_path):
        dead_pipe(tmp_path, "z")
        assert bells.ring() == 1


def test_the_pipes_of_the_dead_are_removed(tmp_path: Path) -> None:
    """Pipes without a reader go, whether they had their name or not; those of the living stay."""
    dead_pipe(tmp_path, "dead")
    dead_pipe(tmp_path, ".unfinished")
    with Bell(tmp_path) as bell:
        remove_dead(tmp_path)
        assert list(tmp_path.iterdir()) == [bell.path]


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    """Where the folder is gone ringing raises, so that the engine can note it."""
    gone = Bells(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        gone.ring()
    gone.close()


def test_a_closed_bell_rings_nobody(tmp_path: Path) -> None:
    """A ring after the close writes into no descriptor, whoever has that number now."""
    bell = Bell(tmp_path)
    bell.close()
    pipes = [os.pipe() for _ in range(4)]
    bell.ring()
    assert select.select([readable for readable, _ in pipes], [], [], 0)[0] == []
    for pipe in pipes:
        os.close(pipe[0])
        os.close(pipe[1])


def test_something_else_can_be_waited_for_too(tmp_path: Path) -> None:
    """A wait also ends when one of the others is readable, and says which; what is readable there is left there."""
    readable, writable = os.pipe()

    class Other:
        def fileno(self) -> int:
            return readable

    other = Other()
    with Bell(tmp_path) as bell:
        assert bell.wait(0, [other]) == []
        os.write(writable, b"!")
        assert bell.wait(None, [other]) == [other]
        bell.ring()
        assert bell.wait(0, [other]) == [bell, other]
    os.close(readable)
    os.close(writable)
