"""What a worker did, for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Report:
    """Counted from its start to its end."""

    recovered: int = 0
    ended: int = 0
    drained: bool = False
