"""The ids and instants that name a result before it exists, and the check of their form.

All are pure functions of what was submitted; nothing here asks a clock or a random source.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from datetime import datetime

import msgspec

from perenne.errors import InvalidInput

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Identity(msgspec.Struct, frozen=True):
    """What makes publishing twice once (L:P-5): two ids and the 20-character UTC instant fixed at submit."""

    extraction_id: str
    derivative_id: str
    requested_at: str


class SpecimenJob(msgspec.Struct, frozen=True):
    """The fixed ids of one job of the specimen workspace (L:2.23)."""

    job_id: str
    extraction_id: str
    derivative_id: str

    @property
    def identity(self) -> Identity:
        """The identity under which the job publishes."""
        return Identity(self.extraction_id, self.derivative_id, SPECIMEN_REQUESTED_AT)


SPECIMEN_REQUESTED_AT = "2026-09-26T21:00:00Z"
SPECIMEN_MAIL = SpecimenJob(
    "82000000-0000-4000-8000-000000000011",
    "82000000-0000-4000-8000-000000000012",
    "82000000-0000-4000-8000-000000000013",
)
SPECIMEN_IMAGE = SpecimenJob(
    "82000000-0000-4000-8000-000000000021",
    "82000000-0000-4000-8000-000000000022",
    "82000000-0000-4000-8000-000000000023",
)


def derive(key: str, purpose: str) -> str:
    """A UUID-shaped id from the SHA-256 of `key:purpose`: 32 hex digits with a 4 and an 8 set in (L:Q-6)."""
    digits = hashlib.sha256(f"{key}:{purpose}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-{digits[18:30]}"


def identity_of(key: str, requested_at: str) -> Identity:
    """The identity of the job that a client submits under `key`, a lower-case UUID that is also the job's id."""
    check_uuid("key", key)
    check_instant("requested_at", requested_at)
    return Identity(derive(key, "request"), derive(key, "derivative"), requested_at)


def evidence_id_of(investigation_id: str, sha256: str) -> str:
    """The id of an original, from its content and its investigation (RFC 9562, section 5.5: version 5)."""
    return str(uuid.uuid5(uuid.UUID(investigation_id), f"sha256:{sha256}"))


def observation_id_of(extraction_id: str, rank: int) -> str:
    """The id of the observation at `rank` (from 0) in its extraction."""
    return derive(extraction_id, f"observation:{rank}")


def check_identity(identity: Identity) -> None:
    """Raises InvalidInput unless both ids are different UUIDs in lower case and the instant has its 20 characters."""
    check_uuid("extraction_id", identity.extraction_id)
    check_uuid("derivative_id", identity.derivative_id)
    check_instant("requested_at", identity.requested_at)
    if identity.extraction_id == identity.derivative_id:
        raise InvalidInput(
            f"derivative_id: {identity.derivative_id} is also the extraction_id; give two different ids",
            field="derivative_id",
            value=identity.derivative_id,
        )


def check_uuid(field: str, value: str) -> str:
    """The value, when it is a UUID in lower case; else InvalidInput."""
    if isinstance(value, str) and _UUID.fullmatch(value):
        return value
    raise InvalidInput(f"{field}: {value!r} is not a UUID in lower case; give one", field=field, value=value)


def check_instant(field: str, value: str) -> str:
    """The value, when it is a real UTC instant written `YYYY-MM-DDTHH:MM:SSZ`; else InvalidInput."""
    if isinstance(value, str) and _INSTANT.fullmatch(value) and _exists(value):
        return value
    raise InvalidInput(
        f"{field}: {value!r} is not a UTC instant of 20 characters; write it as YYYY-MM-DDTHH:MM:SSZ",
        field=field,
        value=value,
    )


def check_sha256(field: str, value: str) -> str:
    """The value, when it is 64 hexadecimal digits in lower case; else InvalidInput."""
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return value
    raise InvalidInput(f"{field}: {value!r} is not 64 hexadecimal digits in lower case", field=field, value=value)


def _exists(instant: str) -> bool:
    try:
        datetime.strptime(instant, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return False
    return True
