"""Which engine a task goes to when none is named: the innermost open one, else the one of the app's own workspace.

What does not live here: opening (`wiring`, which says here how it is done), and submitting.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from perenne.core.job import Receipt
from perenne.core.kind import Kind
from perenne.errors import NotAllowed


class Open(Protocol):
    """What takes jobs: an open engine, a transaction of it, or the context of a running attempt."""

    app: Any  # None in a child, which knows only its kind: whoever stores the job finds out

    def submit(self, kind: Kind | str, input: object, **wishes: Any) -> Receipt:
        """Store a job, as `Engine.submit` does."""


# Innermost last. A thread or coroutine that was started elsewhere has none of its own.
_OPEN: ContextVar[tuple[Open, ...]] = ContextVar("perenne_open", default=())
_openers: list[Callable[[Any], Open]] = []
_forbidden: list[str] = []


def enter(engine: Open) -> None:
    """From now on this is the innermost one, for this thread or coroutine and what it starts in its context."""
    _OPEN.set((*_OPEN.get(), engine))


def leave(engine: Open) -> None:
    """It is no longer open; leaving what was not entered does nothing."""
    kept = list(_OPEN.get())
    if engine in kept:
        kept.reverse()
        kept.remove(engine)
        kept.reverse()
        _OPEN.set(tuple(kept))


@contextmanager
def within(engine: Open) -> Iterator[None]:
    """The innermost one while the block runs."""
    before = _OPEN.set((*_OPEN.get(), engine))
    try:
        yield
    finally:
        _OPEN.reset(before)


def register(opener: Callable[[Any], Open]) -> None:
    """Say how the engine of an app's own workspace is opened, or found open already."""
    _openers[:] = [opener]


def forbid(why: str) -> None:
    """From now on no engine is near in this process; whoever looks for one is told why."""
    _forbidden[:] = [why]


def find(app: Any, kind: Kind) -> Open:
    """The innermost open engine of this app, else the engine of the app's own workspace.

    Raises: NotAllowed: this process shall have none; and whatever the registered opener raises.
    """
    for engine in reversed(_OPEN.get()):
        if engine.app is None or (not _forbidden and _serves(engine.app, app, kind)):
            return engine
    if _forbidden:
        raise NotAllowed(f"task {kind}: {_forbidden[0]}")
    if not _openers:
        importlib.import_module("perenne.wiring")  # it registers itself; a module of tasks alone has not loaded it
    return _openers[0](app)


def _serves(opened: Any, app: Any, kind: Kind) -> bool:
    return opened is app or any(known is kind for known in opened.kinds)
