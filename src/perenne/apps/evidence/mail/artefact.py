"""The artefact of a mail analysis, contract perenne.evidence.mail.v1: messages, their facts, defects, bounds hit.

Here: the whole of it. Not here: the types of single facts (`header_facts`, `part_facts`, `notices`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from perenne.apps.evidence.mail.header_facts import Authentication, Date, Fact, Field, Hop, Mailbox, Signature, Text
from perenne.apps.evidence.mail.limits import Limits
from perenne.apps.evidence.mail.notices import Defect, Finding, LimitHit, Observation
from perenne.apps.evidence.mail.part_facts import Attachment, Body, Link, Part, Uuencoded

CONTRACT = "perenne.evidence.mail.v1"
ANALYSER_ID = "perenne.evidence.mail"
ANALYSER_VERSION = "1"

LineEnds = Literal["crlf", "lf", "cr", "mixed", "none"]


class Source(msgspec.Struct, frozen=True, gc=False):
    """The bytes that were analysed: their number and their SHA-256."""

    size_bytes: int
    sha256: str


class Analyser(msgspec.Struct, frozen=True, gc=False):
    """Who wrote the artefact."""

    id: str = ANALYSER_ID
    version: str = ANALYSER_VERSION


class Message(Fact, frozen=True):
    """One message: the file itself (path "") or a nested one (path `2.m`), which lies at its place.

    `space`: the bytes in which all offsets of this message count: "" for the file, else the path of the part whose
    decoded bytes they are. A nested message that is not encoded lies in the space of its carrier.
    """

    path: str
    carrier: str | None
    space: str
    offset: int
    length: int
    sha256: str
    line_ends: LineEnds
    header_offset: int
    header_length: int
    fields: tuple[Field, ...]
    subject: Text | None
    subjects: tuple[Text, ...]
    from_: tuple[Mailbox, ...]
    to: tuple[Mailbox, ...]
    cc: tuple[Mailbox, ...]
    bcc: tuple[Mailbox, ...]
    reply_to: tuple[Mailbox, ...]
    return_path: tuple[Mailbox, ...]
    sender: tuple[Mailbox, ...]
    message_id: Text | None
    in_reply_to: tuple[Text, ...]
    references: tuple[Text, ...]
    date: Date | None
    hops: tuple[Hop, ...]
    authentication: tuple[Authentication, ...]
    signatures: tuple[Signature, ...]
    parts: tuple[Part, ...]
    attachments: tuple[Attachment, ...]
    bodies: tuple[Body, ...]
    uuencoded: tuple[Uuencoded, ...]
    links: tuple[Link, ...]
    observations: tuple[Observation, ...]
    findings: tuple[Finding, ...]


class Analysis(msgspec.Struct, frozen=True):
    """All that one file says; `messages[0]` is the file itself, then the nested ones in their order."""

    source: Source
    analyser: Analyser
    limits: Limits
    messages: tuple[Message, ...]
    defects: tuple[Defect, ...]
    limits_hit: tuple[LimitHit, ...]
    contract: str = CONTRACT


def encoded(analysis: Analysis) -> bytes:
    """The artefact as UTF-8 JSON; the same analysis always gives the same bytes."""
    return msgspec.json.encode(analysis)
