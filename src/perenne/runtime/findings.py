"""What a look at a workspace answers: findings as values, each with its sentence and what to do."""

from __future__ import annotations

from typing import Literal

import msgspec

from perenne.errors import EngineError

Verdict = Literal["ok", "warn", "bad"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at.

    verdict: `ok` as it should be; `warn` works, but somebody should look; `bad` a promise is not kept.
    next_step: what to do, when there is something to do.
    """

    name: str
    verdict: Verdict
    sentence: str
    next_step: str | None = None


def ok(name: str, sentence: str) -> Finding:
    return Finding(name, "ok", sentence)


def warn(name: str, sentence: str, next_step: str) -> Finding:
    return Finding(name, "warn", sentence, next_step)


def bad(name: str, sentence: str, next_step: str) -> Finding:
    return Finding(name, "bad", sentence, next_step)


def refused(name: str, error: EngineError) -> Finding:
    """A look that was refused; our errors end with their next step."""
    sentence, _, next_step = str(error).rpartition("; ")
    return bad(name, sentence or next_step, next_step if sentence else "look at the file it names")


def some(things: list[str], most: int = 5) -> str:
    """At most so many of them, and how many there are beside."""
    left = len(things) - most
    return ", ".join(things[:most]) + (f" and {left} more" if left > 0 else "")
