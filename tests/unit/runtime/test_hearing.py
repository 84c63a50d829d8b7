"""Wishes reach the attempt they are meant for, whenever they are told, and the newest ones stand."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from perenne.runtime.hearing import Hearing, told
from perenne.runtime.wishes import Wishes

LIMIT_S = 10.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, Hearing]]:
    readable, writable = os.pipe()
    yield writable, Hearing(readable)
    os.close(writable)


def asked(*whys: str, hard: str | None = None) -> Wishes:
    wishes = Wishes()
    for why in whys:
        wishes.ask(why)
    if hard is not None:
        wishes.ask(hard, hard=True)
    return wishes


def heard(wishes: Wishes) -> bool:
    return bool(select.select([wishes.stop], [], [], LIMIT_S)[0])


def test_a_wish_is_heard_while_the_attempt_runs(pipe: tuple[int, Hearing]) -> None:
    """A hard wish also stops the tools of the attempt."""
    writable, hearing = pipe
    with hearing.of(1) as wishes:
        os.write(writable, told(1, asked("cancel")))
        assert heard(wishes)
        assert wishes.first == "cancel"


def test_a_wish_that_comes_before_its_attempt_waits_for_it(pipe: tuple[int, Hearing]) -> None:
    """What is told of the next attempt is not lost, and does not touch the one that runs."""
    writable, hearing = pipe
    with hearing.of(1) as first:
        os.write(writable, told(2, asked(hard="suspend")))
        os.write(writable, told(2, asked(hard="suspend")))
        while hearing._newest[0] != 2:
            select.select([], [], [], 0.001)
        assert first.first is None
    with hearing.of(2) as second:
        assert heard(second)
        assert second.first == "suspend"


def test_a_wish_for_an_attempt_that_is_over_is_not_heard(pipe: tuple[int, Hearing]) -> None:
    """It was on its way when the attempt ended."""
    writable, hearing = pipe
    os.write(writable, told(1, asked("cancel")))
    while hearing._newest[0] != 1:
        select.select([], [], [], 0.001)
    with hearing.of(2) as wishes:
        assert wishes.first is None
        assert not wishes.stop.asked


def test_a_pause_is_taken_back(pipe: tuple[int, Hearing]) -> None:
    """The newest state stands: what is not asked any more is not met."""
    writable, hearing = pipe
    wishes_there = asked("pause")
    with hearing.of(1) as wishes:
        os.write(writable, told(1, wishes_there))
        assert heard(wishes)
        wishes_there.take_back("pause")
        os.write(writable, told(1, wishes_there))
        while wishes.asked("pause"):
            select.select([], [], [], 0.001)
        wishes.meet()
