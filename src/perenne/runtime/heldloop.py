"""Who holds the loop of a worker, told in the worker's lock file as long as it lasts: for people, and for the doctor.

What does not live here: finding it out (`loopwatch`), and the lock itself (`owner`). A worker that dies meanwhile takes
what stands here along, for its lock file is removed by whoever settles what it left.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from perenne.files.lock import add_text, holder

_TOLD = re.compile(r"loop held since (?P<since>\d{1,18}) by (?P<who>.+)")


class HeldLoop(NamedTuple):
    """Since when, in UTC microseconds, and by whom."""

    since: int
    who: str


def tell(lock: Path, held: HeldLoop | None) -> None:
    """Say in the lock file of this worker who holds its loop; None: nobody any more."""
    add_text(lock, "" if held is None else f"loop held since {held.since} by {held.who}\n")


def told(lock: Path) -> HeldLoop | None:
    """What a worker says of its loop; None when it says nothing."""
    found = _TOLD.search(holder(lock))
    return None if found is None else HeldLoop(int(found["since"]), found["who"])
