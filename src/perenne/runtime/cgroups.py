"""What the control groups of this process leave it, both versions, from its own group up to the outermost one.

What does not live here: what the whole machine has (`machine`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

UNLIMITED = 1 << 60  # version 1 writes a huge number where there is no limit
READ_BYTES = 1 << 16


class Mount(NamedTuple):
    """Where a hierarchy is seen, and which group of it stands there."""

    version: int
    controllers: frozenset[str]
    group: str
    place: Path


class _Names(NamedTuple):
    """What the files of one version are called."""

    limit: str
    used: str
    reclaimable: str


_MEMORY = {
    1: _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: _Names("memory.max", "memory.current", "inactive_file"),
}


def memory(root: Path) -> list[tuple[int, int | None]]:
    """The limit of each group that has one, and what is left of it (None: unknown), in bytes."""
    found = []
    for version, folder in _groups(root, "memory"):
        names = _MEMORY[version]
        limit = _number(folder / names.limit)
        if limit is not None and 0 < limit < UNLIMITED:
            found.append((limit, _left(folder, limit, names)))
    return found


def cpus(root: Path) -> float | None:
    """The least CPU time a second that a group allows; None without a limit."""
    quotas = [quota for version, folder in _groups(root, "cpu") if (quota := _quota(version, folder)) is not None]
    return min(quotas, default=None)


def _left(folder: Path, limit: int, names: _Names) -> int | None:
    """What is not used, and what the kernel would give back at once."""
    used = _number(folder / names.used)
    if used is None or used < 0:
        return None
    reclaimable = 0
    for line in _lines(folder / "memory.stat"):
        name, _, value = line.partition(" ")
        if name == names.reclaimable and value.strip().isdigit():
            reclaimable = int(value)
    return min(max(limit - used, 0) + min(reclaimable, used), limit)


def _quota(version: int, folder: Path) -> float | None:
    if version == 2:
        words = " ".join(_lines(folder / "cpu.max")).split()
        pair = (words[0], words[1]) if len(words) == 2 else ("", "")
    else:
        pair = (str(_number(folder / "cpu.cfs_quota_us")), str(_number(folder / "cpu.cfs_period_us")))
    if not all(word.isdigit() and int(word) > 0 for word in pair):
        return None
    return int(pair[0]) / int(pair[1])


def _groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """The folders of our groups in the hierarchy that has this controller, innermost first."""
    mounts = list(_mounts(root))
    for line in _lines(root / "proc" / "self" / "cgroup"):
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        version = 2 if controllers == "" else 1
        if version == 1 and controller not in controllers.split(","):
            continue
        for mount in mounts:
            if mount.version == version and (version == 2 or controller in mount.controllers):
                yield from ((version, folder) for folder in _upwards(root, mount, group))


def _mounts(root: Path) -> Iterator[Mount]:
    for line in _lines(root / "proc" / "self" / "mountinfo"):
        before, _, after = line.partition(" - ")
        words, kind = before.split(), [*after.split(), "", "", ""]
        if len(words) >= 5 and kind[0] in ("cgroup", "cgroup2"):
            version = 2 if kind[0] == "cgroup2" else 1
            yield Mount(version, frozenset(kind[2].split(",")), words[3], Path(words[4]))


def _upwards(root: Path, mount: Mount, group: str) -> Iterator[Path]:
    """The folder of the group and of every group around it that is seen there."""
    with contextlib.suppress(ValueError):
        below = PurePosixPath(group).relative_to(mount.group) if group != mount.group else PurePosixPath()
        if ".." not in below.parts:
            for part in (below, *below.parents):
                yield _below(root, mount.place) / part
            return
    yield _below(root, mount.place)


def _below(root: Path, place: Path) -> Path:
    return root / place.relative_to("/") if place.is_absolute() else root / place


def _number(file: Path) -> int | None:
    word = " ".join(_lines(file)).strip()
    return int(word) if word.lstrip("-").isdigit() and len(word) < 21 else None


def _lines(file: Path) -> list[str]:
    """The lines of a small file; none where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(READ_BYTES).decode("ascii", "replace").splitlines()
    except (OSError, ValueError):
        return []
