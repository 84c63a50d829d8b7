"""The facts of the machine that a figure depends on; no name of a host and no time."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import apsw

from perenne import filesystem


def facts(folder: Path) -> dict[str, Any]:
    """Cores, load, versions, and the file system that holds the folder."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "file_system": filesystem.judge(folder).name,
    }
