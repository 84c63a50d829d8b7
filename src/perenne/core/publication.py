"""The identity under which a job publishes in another store, and what a look at that store answers.

Everything that names a result is fixed at submit; nothing here is invented at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from perenne.core import limits
from perenne.errors import InvalidInput

Found = Literal["absent", "coherent", "incoherent", "unknown"]
_FOUND = get_args(Found)


class Publication(msgspec.Struct, frozen=True):
    """Who publishes, under which ids, as of when, from which input.

    `ids` maps the names a kind declared to UUIDs; `requested_at` is UTC as `YYYY-MM-DDTHH:MM:SSZ` and is part of the
    identity; `input` is the kind's typed input; `workspace` is the root folder.
    """

    job_id: str
    ids: Mapping[str, str]
    requested_at: str
    input: Any
    workspace: Path


class Published(msgspec.Struct, frozen=True):
    """The answer of a lookup. Coherent means verified, not merely present; unknown means it could not be read."""

    state: Found
    finding: str = ""
    result: Any = None

    def __post_init__(self) -> None:
        if self.state not in _FOUND:
            raise InvalidInput(f"Published.state: {self.state!r}; give one of {', '.join(_FOUND)}", field="state")
        limits.check_word("Published.finding", self.finding)

    @classmethod
    def absent(cls) -> Published:
        """Nothing of this identity is published."""
        return _ABSENT

    @classmethod
    def coherent(cls, result: Any = None) -> Published:
        """All of it is published and verified; `result` becomes the job's result."""
        return cls("coherent", result=result)

    @classmethod
    def incoherent(cls, finding: str) -> Published:
        """Something is there that is not what this identity would publish; the finding says what."""
        return cls("incoherent", finding)


_ABSENT = Published("absent")
