"""Who acts: the name under which a person's words stand in the history. Workers name themselves by their lock."""

from __future__ import annotations

import getpass
import os


def person() -> str:
    """`person:NAME`, or with the number of a user that has no name on this machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"person:{name}"
