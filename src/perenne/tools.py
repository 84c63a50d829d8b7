"""Outside programs for applications: run one within limits, find one where it will find itself.

The public face of the bounded tool runner; how it works lives in `runtime/toolrunner.py` and the files named there.
"""

from __future__ import annotations

import os
from pathlib import Path

from perenne.errors import InvalidInput
from perenne.runtime.confine import Confined, Confinement, Offer, offer
from perenne.runtime.stop import Stop
from perenne.runtime.toolrunner import ENVIRONMENT, Ending, Limits, Stream, ToolResult, identify, run
from perenne.runtime.toolsession import Session, session

__all__ = [
    "Confined",
    "Confinement",
    "Ending",
    "Limits",
    "Offer",
    "Session",
    "Stop",
    "Stream",
    "ToolResult",
    "find",
    "identify",
    "offer",
    "run",
    "session",
]


def find(name: str) -> Path | None:
    """The program of this name in the folders of the tools' own PATH, or None.

    The user's PATH is not asked, and neither is /usr/local/bin: what is found here is what a tool, too, would call by
    that name, for everybody and on every run.

    Raises:
        InvalidInput: the name is empty or holds a slash.
    """
    if not name or "/" in name or "\0" in name:
        raise InvalidInput(f"name is {name!r}; give the plain name of a program", field="name", value=name)
    places = (Path(folder, name) for folder in ENVIRONMENT["PATH"].split(":"))
    return next((path for path in places if path.is_file() and os.access(path, os.X_OK)), None)
