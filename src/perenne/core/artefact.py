"""An artefact: a file that a job keeps under a name, and how much may be kept. What does not live here: bytes, rows."""

from __future__ import annotations

import re

import msgspec

from perenne.core import limits
from perenne.errors import InvalidInput

PLAIN = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}", re.IGNORECASE)


class Artefact(msgspec.Struct, frozen=True):
    """One file that a job keeps.

    digest: SHA-256 in hexadecimal. attempt, number: who kept it first. kept_at: UTC microseconds.
    """

    name: str
    media_type: str
    size_bytes: int
    digest: str
    attempt: str
    number: int
    kept_at: int


class Room(msgspec.Struct, frozen=True):
    """How many bytes one artefact may have, all of one job, and all of the workspace; each name counts whole."""

    one_bytes: int = 1 << 30
    job_bytes: int = 16 << 30
    workspace_bytes: int = 256 << 30

    def check(self, name: str, size_bytes: int, of_job: int = 0, of_all: int = 0) -> None:
        """Refuse what does not fit beside so many bytes that are kept. Raises: TooLarge."""
        step = "keep less, or raise it under [artefacts] in workspace.toml"
        for what, kept_bytes, limit_bytes in (
            ("", 0, self.one_bytes),
            (" with all of the job", of_job, self.job_bytes),
            (" with all of the workspace", of_all, self.workspace_bytes),
        ):
            limits.check_size(f"artefact {name!r}{what}", kept_bytes + size_bytes, limit_bytes, step)


def check(name: object, media_type: object) -> None:
    """Raises: InvalidInput, TooLarge: names the field."""
    if not isinstance(name, str):
        raise InvalidInput(f"name: {name!r} is no text; give a str", field="name", value=name)
    limits.check_text("name", name, limits.NAME_BYTES)
    if not name.isprintable():
        raise InvalidInput(f"name: {name!r} is more than one line of visible text; leave the rest out", field="name")
    if not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidInput(f"media_type: {media_type!r} is none; give one such as image/png", field="media_type")
