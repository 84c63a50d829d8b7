"""What a test does to an attempt at its boundaries: to pause it there, to stop it, to have it give way.

Nothing here is used outside tests (`perenne.disturbing`); in production each boundary asks whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from perenne.crashpoints import crash_point
from perenne.runtime.wishes import Wishes

_told: list[Callable[[str, Wishes], object]] = []
_breaks: list[Callable[[], bool]] = []


def at_boundary(job_id: str, wishes: Wishes) -> None:
    """A handler is at a boundary, and has not yet met what is asked of it."""
    if _told:
        _told[0](job_id, wishes)
    crash_point("run.boundary")


def gives_way() -> bool:
    """Whether a sequence break shall give way although nobody waits."""
    return bool(_breaks) and _breaks[0]()


@contextmanager
def told(tell: Callable[[str, Wishes], object], breaks: Callable[[], bool]) -> Iterator[None]:
    """Meanwhile `tell` is called at each boundary of this process, with the job and where its wishes are asked."""
    _told[:], _breaks[:] = [tell], [breaks]
    try:
        yield
    finally:
        _told.clear()
        _breaks.clear()
