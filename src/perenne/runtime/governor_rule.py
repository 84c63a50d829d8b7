"""The policy of the governor that stands in the manifest of a workspace: read and checked.

What does not live here: what the policy means (`core.resources`), and who asks for it (`governor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perenne.core.resources import Policy
from perenne.errors import InvalidInput
from perenne.files.workspace import Workspace

MOST = 1 << 62
_WHOLE = (
    "memory_kept_bytes",
    "memory_limit_bytes",
    "memory_emergency_bytes",
    "cpus_kept",
    "io_slots",
    "gpu_slots",
    "gpu_memory_bytes",
)
_MOST = {"load_ratio": 1e6, "cpu_percent": 100.0, "memory_percent": 100.0, "io_percent": 100.0, "ageing_s": 1e9}


def of(workspace: Workspace) -> Policy:
    """The policy in the table `[governor]` of the manifest; the defaults for what it leaves out.

    Raises: InvalidInput: names the manifest, the field, its value and what may stand there.
    """
    given: Mapping[str, Any] = workspace.governor or {}
    for name, value in given.items():
        limit = _limit(name)
        if limit is None:
            known = ", ".join(Policy.__struct_fields__)
            raise InvalidInput(f"{workspace.manifest}: governor.{name}: no such field; known are {known}", field=name)
        kinds, most = limit
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= most:
            what = "whole number" if kinds is int else "number"
            raise InvalidInput(
                f"{workspace.manifest}: governor.{name}: {value!r}, the limit is 0 to {most:g}; give a {what} in it",
                field=name,
                value=value,
            )
    return Policy(**given)


def _limit(name: str) -> tuple[Any, float] | None:
    if name in _WHOLE:
        return int, MOST
    return ((int, float), _MOST[name]) if name in _MOST else None
