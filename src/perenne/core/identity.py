"""Ids that are fixed before anything runs: of jobs, publications and attempts.

Time and luck are arguments; nothing here asks a clock or a random source.
"""

from __future__ import annotations

import hashlib
import re

from perenne.errors import InvalidInput

_VARIANTS = "89ab"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def job_id(now_us: int, luck: bytes) -> str:
    """A UUID version 7: milliseconds of `now_us` (UTC microseconds), then 74 of the bits in `luck` (10 bytes).

    Source: RFC 9562, section 5.7.
    """
    time, rest = f"{now_us // 1000 & (1 << 48) - 1:012x}", luck[:10].hex()
    return f"{time[:8]}-{time[8:]}-7{rest[2:5]}-{_VARIANTS[luck[0] & 3]}{rest[5:8]}-{rest[8:]}"


def publication_id(job: str, name: str) -> str:
    """The UUID of one publication of a job, derived from both (version 8: SHA-256, RFC 9562 section 5.8)."""
    return _derived(f"{job}:{name}")


def child_id(parent: str, name: str) -> str:
    """The UUID of a job that a job submits under this name, derived from both; never that of a publication."""
    return _derived(f"child\n{parent}\n{name}")


def is_uuid(value: object) -> bool:
    """Whether it is a UUID as this project writes them: lower case, with dashes."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def check_uuid(field: str, value: str) -> str:
    """The value, when it is a lower-case UUID.

    Raises:
        InvalidInput: names the field and the value.
    """
    if not is_uuid(value):
        raise InvalidInput(
            f"{field}: {value!r} is not a UUID in lower case; give one or leave it out", field=field, value=value
        )
    return value


def _derived(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return _dashed(f"{digest[:12]}8{digest[13:16]}8{digest[17:32]}")


def _dashed(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
