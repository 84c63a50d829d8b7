"""How a worker is told to end by signals, and which step of a drain comes when."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from perenne.runtime import drain
from perenne.runtime.drain import GRACE_S, Drain, signals
from perenne.runtime.wake import Bell
from perenne.runtime.wishes import Wishes
from perenne.testing import FakeClock

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_ends_the_sleep_itself(tmp_path: Path, number: int) -> None:
    """The bell is rung as the signal arrives, not when Python comes to its handler; so no sleep can swallow it."""
    heard: list[int] = []
    with Bell(tmp_path) as bell, signals(lambda: heard.append(number), bell.fileno()):
        os.kill(os.getpid(), number)
        assert bell.wait(20) == [bell]
        assert heard == [number]


def test_afterwards_signals_are_as_they_were(tmp_path: Path) -> None:
    """Handlers and the descriptor that signals wake are put back, also after an error."""
    before = [signal.getsignal(number) for number in NUMBERS]
    with pytest.raises(ValueError, match="wrong"), Bell(tmp_path) as bell, signals(lambda: None, bell.fileno()):
        raise ValueError("wrong")
    assert [signal.getsignal(number) for number in NUMBERS] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_another_thread_leaves_signals_alone(tmp_path: Path) -> None:
    """Only the main thread may hear signals; a worker in another one is stopped by its own verb."""
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def work() -> None:
        with Bell(tmp_path) as bell, signals(lambda: None, bell.fileno()):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert found == [before]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes with which the process would have ended itself."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


def test_a_drain_takes_its_steps_in_time(clock: FakeClock, deaths: list[int]) -> None:
    """First the boundary, after the grace time the tool, at last the process; each wakes the worker by itself."""
    ending, wishes = Drain(clock), Wishes()
    assert ending.next_step_s() is None
    ending.asked = 1
    ending.begin()
    ending.go_on([wishes])
    assert (ending.next_step_s(), wishes.stop.asked, ending.hard) == (GRACE_S, None, False)
    clock.advance(GRACE_S)
    ending.go_on([wishes])
    assert (wishes.stop.asked, ending.next_step_s(), ending.hard) == ("suspend", drain.LAST_GRACE_S, True)
    assert deaths == []
    clock.advance(drain.LAST_GRACE_S)
    ending.go_on([wishes])
    assert deaths == [drain.EXIT_CODE]


def test_the_second_wish_does_not_wait(clock: FakeClock, deaths: list[int]) -> None:
    """Asked twice, tools are stopped at once and the last grace time begins."""
    ending, wishes = Drain(clock), Wishes()
    ending.begin()
    ending.asked = 2
    ending.go_on([wishes])
    assert wishes.stop.asked == "suspend"
    clock.advance(drain.LAST_GRACE_S)
    ending.go_on([wishes])
    assert deaths == [drain.EXIT_CODE]


def test_a_drain_without_handlers_ends_nobody(clock: FakeClock, deaths: list[int]) -> None:
    """Where no handler runs any more the process is not ended, however late it is."""
    ending = Drain(clock)
    ending.begin()
    clock.advance(1000)
    ending.go_on([])
    assert deaths == []
