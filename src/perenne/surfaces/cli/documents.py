"""The small JSON documents of commands, with their contracts; the large ones are the engine's own values."""

from __future__ import annotations

from typing import Literal

import msgspec


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """What `submit --json` prints for each job, one a line. durability: `durable` is on disk."""

    contract: Literal["perenne.receipt.v1"]
    id: str
    state: str
    reused: bool
    durability: str


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What `version --json` prints."""

    contract: Literal["perenne.version.v1"]
    perenne: str
    python: str
    sqlite: str


class Found(msgspec.Struct, frozen=True):
    """One finding of `doctor --json`, which prints a list of them."""

    name: str
    verdict: Literal["ok", "warn", "bad"]
    sentence: str
    next_step: str | None
