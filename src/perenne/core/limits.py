"""The bounds of a workspace, a queue and a kind, and the one way to cut a text to its bound."""

from __future__ import annotations

from perenne.errors import TooLarge

INPUT_BYTES = 256 * 1024
RESULT_BYTES = 256 * 1024
DIAGNOSTIC_BYTES = 2048
KEY_BYTES = 512
NAME_BYTES = 200
DEPENDENCIES = 10_000
QUEUE_CAPACITY = 128
ATTEMPTS = range(1, 101)
PRIORITY = range(-1_000, 1_001)
SNOOZE_LEAST_S = 1.0

# One step of priority overtakes what was submitted up to this long before, and no longer: so nothing starves.
AGEING_US = 60 * 1_000_000


def check_size(field: str, size_bytes: int, limit_bytes: int, next_step: str) -> None:
    """Refuse what is larger than its limit.

    Raises:
        TooLarge: names field, size, limit and the next step.
    """
    if size_bytes > limit_bytes:
        raise TooLarge(
            f"{field}: {size_bytes} bytes, the limit is {limit_bytes}; {next_step}",
            field=field,
            value=size_bytes,
            limit=limit_bytes,
        )


def clip(text: str, limit_bytes: int = DIAGNOSTIC_BYTES) -> str:
    """The text as printable UTF-8 of at most `limit_bytes`, cut between characters; line breaks stay."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text[:limit_bytes])
    return clean.encode("utf-8", "replace")[:limit_bytes].decode("utf-8", "ignore")


def rank(submitted_at: int, priority: int) -> int:
    """The place of a job in its lane, smaller first: microseconds of submission, moved by priority."""
    return submitted_at - priority * AGEING_US
