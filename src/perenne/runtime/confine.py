"""Confinement of outside programs: what is asked for, what this machine offers, and which of it is in force.

What lives here: values and the decision. The tool host carries it out with `landlock.py` and `seccomp.py`
(`toolbirth.py`), or `bubblewrap.py`. What each level gives, and what not: docs/decisions/0024-confinement.md.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

from perenne.errors import ConfinementMissing, InvalidInput
from perenne.runtime.toolorder import Cage, Level

LEVELS: tuple[Level, ...] = get_args(Level)  # as core.takes.Confinement
_SHEBANG_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What a tool may reach, asked for.

    Args:
        level: `none` limits alone; `offline` also no network, no other process, no change of the system; `stage` also
            no file but its stage, what programs are made of, and `reads`.
        required: without that level the tool is not run; else the best that is offered is taken.
        stage: absolute path of the folder where it may read and write; None for no folder at all.
        reads: absolute paths that it may read, and run programs from; each must exist.
        children: how many other processes it may have at once; they are confined as it is and end with it. Where no
            cgroup can be made the number is not bounded, and what was in force says so.
    """

    level: Level = "stage"
    required: bool = False
    stage: Path | None = None
    reads: tuple[Path, ...] = ()
    children: int = 0

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise InvalidInput(
                f"confinement.level is {self.level!r}; give one of {', '.join(LEVELS)}", field="level", value=self.level
            )
        if isinstance(self.children, bool) or not 0 <= self.children < 1 << 22:
            raise InvalidInput(
                f"confinement.children is {self.children!r}; give a whole number from 0 to 4194303",
                field="children",
                value=self.children,
            )
        for name, path in [("stage", self.stage), *(("reads", path) for path in self.reads)]:
            if path is not None and (not path.is_absolute() or "\0" in str(path)):
                raise InvalidInput(
                    f"confinement.{name} is {str(path)!r}; give an absolute path", field=name, value=str(path)
                )


@dataclass(frozen=True)
class Confined:
    """What was in force. by: the mechanisms, for people."""

    level: Level = "none"
    by: str = "limits only"


LIMITS_ONLY = Confined()


@dataclass(frozen=True)
class Offer:
    """What this machine offers; why: what is missing, as a part of a sentence."""

    level: Level
    by: str
    why: str = ""
    counts: bool = False  # whether the processes of a tool can be bounded by number
    wraps: bool = False  # level `stage` by bubblewrap


@cache
def offer() -> Offer:
    """What this machine offers to tools; asked once in a process."""
    if sys.platform != "linux":
        return Offer("none", "limits only", f"{sys.platform} is not Linux")
    from perenne.runtime import bubblewrap, landlock, processbound, seccomp, syscalls

    if not syscalls.numbers(platform.machine()):
        return Offer("none", "limits only", f"the system calls of {platform.machine()} are not known here")
    if not seccomp.known_here():
        return Offer("none", "limits only", "the kernel takes no seccomp filter")
    found = landlock.version()
    counts = processbound.folder() is not None
    if found:
        return Offer("stage", f"landlock {found}, seccomp", counts=counts)
    if bubblewrap.works():
        return Offer("stage", "bubblewrap, seccomp", counts=counts, wraps=True)
    why = "the kernel offers no Landlock, which holds files, and bubblewrap is not here or may not work"
    return Offer("offline", "seccomp", why, counts)


def in_force(asked: Confinement | None) -> Confined:
    """The confinement that a tool gets here.

    Raises:
        ConfinementMissing: the level is required and this machine does not offer it.
    """
    if asked is None or asked.level == "none":
        return LIMITS_ONLY
    here = offer()
    if LEVELS.index(here.level) >= LEVELS.index(asked.level):
        return Confined(asked.level, _mechanisms(asked.level, here, asked.children))
    if asked.required:
        raise ConfinementMissing(
            f"confinement.level {asked.level!r} is required, and this machine offers {here.level!r}: {here.why}; "
            f"use a machine that offers it, or do not require it",
            level=asked.level,
            offered=here.level,
        )
    return Confined(here.level, _mechanisms(here.level, here, asked.children))


def _mechanisms(level: Level, here: Offer, children: int) -> str:
    by = here.by if level == here.level else "seccomp"
    if not children or level == "none":
        return by
    return f"{by}, pids cgroup" if here.counts else f"{by}, processes not counted"


def cage_of(asked: Confinement | None, confined: Confined, program: str) -> Cage:
    """What is taken from the tool, for its host."""
    if asked is None or confined.level == "none":
        return Cage()
    reads = tuple(os.fsencode(path) for path in asked.reads)
    interpreter = _interpreter_of(program) if confined.level == "stage" else None
    return Cage(
        level=confined.level,
        stage=b"" if asked.stage is None else os.fsencode(asked.stage),
        reads=reads if interpreter is None else (*reads, interpreter),
        children=asked.children,
        wrapped=confined.level == "stage" and offer().wraps,
    )


def _interpreter_of(program: str) -> bytes | None:
    """The program that the kernel starts for a script."""
    try:
        with open(program, "rb") as file:
            start = file.read(_SHEBANG_BYTES)
    except OSError:
        return None  # whoever starts it meets the same fault and says so
    words = start[2:].split(b"\n", 1)[0].split() if start.startswith(b"#!") else []
    return words[0] if words and os.path.isfile(words[0]) else None
