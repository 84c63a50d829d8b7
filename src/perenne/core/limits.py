"""The bounds of a workspace, a queue and a kind, and the one way to measure a text or to cut it to its bound."""

from __future__ import annotations

from perenne.errors import InvalidInput, TooLarge

INPUT_BYTES = 256 * 1024
RESULT_BYTES = 256 * 1024
NEEDS_BYTES = 64 * 1024 * 1024  # results of dependencies that one attempt reads
STATE_BYTES = 64 << 20  # of a checkpoint
STATE_IN_ROW_BYTES = 64 << 10  # a larger one is kept in a file
DIAGNOSTIC_BYTES = 2048
KEY_BYTES = 512
NAME_BYTES = 200
DEPENDENCIES = 10_000
BLOCK_S = 0.05  # how long a transaction that runs an application's code may keep every other writer waiting
QUEUE_CAPACITY = 128
QUEUE_CAPACITY_MOST = 1_000_000_000
ATTEMPTS = range(1, 101)
COROUTINES, COROUTINES_MOST = 1_000, 10_000  # that one worker awaits at the same time
PRIORITY = range(-1_000, 1_001)
SNOOZE_LEAST_S = 1.0
WAIT_MOST_S = 10 * 365 * 86_400.0  # ten years: beyond it a wait is a mistake
DUE_MOST_US = 253_402_300_799_999_999  # the last microsecond of the year 9999, UTC

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


def check_text(field: str, value: str, limit_bytes: int) -> str:
    """The value, when it is visible text that UTF-8 can hold, within its limit.

    Raises: InvalidInput, TooLarge: name the field.
    """
    if not is_visible(value):
        raise InvalidInput(
            f"{field}: {value!r} is no visible text; give some, without NUL or half characters, or leave it out",
            field=field,
            value=value,
        )
    check_size(field, len(value.encode()), limit_bytes, "give a shorter one")
    return value


def is_visible(value: object) -> bool:
    """Whether it is a text that shows something and that a database can hold."""
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value and is_whole(value)


def is_whole(text: str) -> bool:
    """Whether it has no half of a character (a lone surrogate), so that UTF-8 can hold it."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def check_word(field: str, value: str) -> str:
    """The value, when it is a text of any content and length; what is kept of it is `clip`ped.

    Raises: InvalidInput.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{field}: {value!r} is no text; give a str", field=field, value=value)
    return value


def check_capacity(value: int) -> int:
    """The value, when it is a bound that a queue can have.

    Raises: InvalidInput.
    """
    if not isinstance(value, int) or not 1 <= value <= QUEUE_CAPACITY_MOST:
        raise InvalidInput(
            f"capacity: {value!r}, the limit is 1 to {QUEUE_CAPACITY_MOST}; give a number in it",
            field="capacity",
            value=value,
            limit=QUEUE_CAPACITY_MOST,
        )
    return value


def clip(text: str, limit_bytes: int = DIAGNOSTIC_BYTES) -> str:
    """The text as printable UTF-8 of at most `limit_bytes`, cut between characters; line breaks stay."""
    if text.isprintable() and 4 * len(text) <= limit_bytes:
        return text
    clean = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text[:limit_bytes])
    return clean.encode("utf-8", "replace")[:limit_bytes].decode("utf-8", "ignore")


def rank(submitted_at: int, priority: int) -> int:
    """The place of a job in its lane, smaller first: microseconds of submission, moved by priority."""
    return submitted_at - priority * AGEING_US
