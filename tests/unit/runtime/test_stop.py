"""Stop: asked once, by anyone, and felt by every wait."""

from __future__ import annotations

import os
import select
import signal
import threading

import pytest

from perenne.errors import InvalidInput
from perenne.runtime.stop import Stop


def is_readable(descriptor: int, within_s: float = 0.0) -> bool:
    return bool(select.select([descriptor], [], [], within_s)[0])


def test_first_reason_stands() -> None:
    """The first reason is kept; later requests change nothing."""
    with Stop() as stop:
        assert stop.asked is None
        stop.ask("shutdown")
        stop.ask("impatience")
        assert stop.asked == "shutdown"


def test_request_needs_a_reason() -> None:
    """A request without a reason is refused and does not count."""
    with Stop() as stop, pytest.raises(InvalidInput, match="reason"):
        stop.ask("")
    assert stop.asked is None


def test_wait_ends_when_another_thread_asks() -> None:
    """A wait on the descriptor ends as soon as another thread asks, for every waiter and for good."""
    with Stop() as stop:
        descriptor = stop.fileno()
        assert not is_readable(descriptor)
        asker = threading.Thread(target=stop.ask, args=["enough"])
        asker.start()
        assert is_readable(descriptor, within_s=10)
        assert is_readable(stop.fileno())
        asker.join()


def test_descriptor_made_after_the_request_is_readable() -> None:
    """Whoever begins to wait after the request does not wait."""
    with Stop() as stop:
        stop.ask("early")
        assert is_readable(stop.fileno())


def test_descriptor_is_closed_on_exec() -> None:
    """No program that is started inherits the descriptor."""
    with Stop() as stop:
        assert not os.get_inheritable(stop.fileno())


def test_signal_handler_may_ask_while_its_thread_holds_the_request() -> None:
    """A request from a signal handler cannot lock up the thread that it interrupted."""
    with Stop() as stop:
        former = signal.signal(signal.SIGUSR1, lambda *_: stop.ask("signal"))
        try:
            with stop._lock:
                signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, former)
        assert stop.asked == "signal"


def test_closed_request_can_be_asked_but_not_waited_on() -> None:
    """Closing gives the descriptors back; asking then is harmless, and waiting is refused with a sentence."""
    stop = Stop()
    descriptor = stop.fileno()
    stop.close()
    stop.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    stop.ask("late")
    assert stop.asked == "late"
    with pytest.raises(InvalidInput, match="closed"):
        stop.fileno()
