"""Facts of parts: the tree, attachments, bodies, uuencoded files, links, each with its place in the bytes.

Here: the types alone. Not here: how a fact is found.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from perenne.apps.evidence.mail.header_facts import Fact

Coding = Literal["identity", "base64", "quoted-printable", "uuencode"]


class Span(msgspec.Struct, frozen=True, gc=False):
    """A run of bytes in the space of its message."""

    offset: int
    length: int


class FileName(msgspec.Struct, frozen=True, gc=False):
    """A file name, decoded and never cleaned, the parameter it came from, and its raw text at its place.

    A name in several sections (RFC 2231) gives the raw text from the first section to the last.
    """

    value: str
    parameter: str
    raw: str
    offset: int
    length: int


class Part(Fact, frozen=True):
    """One part of the tree, before its children: `offset` and `length` are those of its body as it is encoded.

    `path` is 1-based (`2.1`); `m` enters a nested message (`2.m.1`), and a message without parts has the part `1`.
    `size_bytes` and `sha256` are those of the bytes after the transfer decoding, null for a multipart.
    `message` is the path of the nested message that was entered. `preamble` and `epilogue` are those of a multipart.
    """

    path: str
    parent: str
    type: str
    declared_type: str
    charset: str
    disposition: str
    coding: Coding
    declared_coding: str
    content_id: str
    name: FileName | None
    attachment: bool
    header_offset: int
    header_length: int
    offset: int
    length: int
    size_bytes: int | None
    sha256: str | None
    message: str | None
    preamble: Span | None
    epilogue: Span | None


class Attachment(Fact, frozen=True, gc=False):
    """A leaf part that has the disposition `attachment`, a file name, or another type than plain text and HTML."""

    path: str
    type: str
    name: str | None
    raw_name: str | None
    size_bytes: int | None
    sha256: str | None
    message: str | None
    offset: int
    length: int


class Body(Fact, frozen=True, gc=False):
    """A text that is no attachment, decoded; NUL is shown as U+2400. `charset` is the one that was used.

    A text that is `flowed` (RFC 3676) is shown with each paragraph on one line.
    """

    path: str
    type: str
    charset: str
    declared_charset: str
    flowed: bool
    text: str
    offset: int
    length: int


class Uuencoded(Fact, frozen=True, gc=False):
    """A file uuencoded within a text; `text_offset` and `text_length` are bytes of the decoded part."""

    path: str
    name: str
    size_bytes: int
    sha256: str
    text_offset: int
    text_length: int
    offset: int
    length: int


class Link(Fact, frozen=True, gc=False):
    """A link with its scheme, without trailing punctuation.

    `place`: `text`, or in HTML the attribute or `visible`. `raw` is the target as it stands at the characters
    `text_offset`, `text_length` of the decoded text. `exact`: offset and length are those of the link, and `raw` has
    one character a byte; else they are those of its part.
    `shown` is the text that an `<a>` shows; `mismatch`: it names another host than the target.
    """

    path: str
    occurrence: int
    place: str
    target: str
    raw: str
    host: str
    shown: str | None
    mismatch: bool
    text_offset: int
    text_length: int
    exact: bool
    offset: int
    length: int
