"""What the programs of all contenders share: their arguments, and the one line of JSON that they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run(main: Callable[[Path, int, int], dict[str, Any]], arguments: list[str]) -> None:
    """Call the contender with its folder, jobs and slots; its result is the last line of standard output."""
    folder, jobs, slots = arguments[1:]
    print(json.dumps(main(Path(folder), int(jobs), int(slots))), flush=True)


def result(
    version: str, done: int, submit_s: float, work_s: float, modes: dict[str, Any], keeps: str
) -> dict[str, Any]:
    """Args: modes: as its own connection says. keeps: what can be read of a job once it is done."""
    return {"version": version, "done": done, "submit_s": submit_s, "work_s": work_s, "keeps": keeps, **modes}
