"""What one part is and holds: type, name, transfer coding, and the hash of its decoded bytes.

Here: from a node of the tree to a `Part`, and the bytes that are looked into further. Not here: texts, links.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from perenne.apps.evidence.mail import uuencode
from perenne.apps.evidence.mail.charsets import text_of
from perenne.apps.evidence.mail.defects import DefectKind
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.parameters import file_name, value_of
from perenne.apps.evidence.mail.part_facts import Attachment, Coding, FileName, Part, Span
from perenne.apps.evidence.mail.space import Budget, Space
from perenne.apps.evidence.mail.splitter import Region
from perenne.apps.evidence.mail.transfer import base64_chunks, quoted_printable_chunks
from perenne.apps.evidence.mail.tree import MESSAGES, Node, below

TEXTS = frozenset({"text/plain", "text/html"})
_IDENTITY = frozenset({"", "7bit", "8bit", "binary", "7-bit", "8-bit", "none"})
_CODINGS: dict[str, Coding] = {
    "base64": "base64",
    "quoted-printable": "quoted-printable",
    "x-uuencode": "uuencode",
    "x-uue": "uuencode",
    "uuencode": "uuencode",
    "uue": "uuencode",
}


class Held(msgspec.Struct, frozen=True):
    """A part, and its decoded bytes where they are looked into: a text, or a nested message."""

    part: Part
    content: bytes | None


def part_of(space: Space, node: Node, enter: bool, budget: Budget, notes: Notes) -> Held:
    """The part of a node, hashed.

    Args:
        enter: whether a nested message is entered.
    """
    header = node.header
    disposition = header.first("content-disposition")
    declared = header.first("content-transfer-encoding")
    shown = "" if disposition is None else value_of(disposition)
    name = _name(node, notes)
    coding, words = _coding(node, notes)
    leaf = node.split is None and not node.type.startswith("multipart/")
    attachment = leaf and (shown == "attachment" or name is not None or node.type not in TEXTS)
    nested = below(node.path, "m") if enter and node.type in MESSAGES and node.split is None else None
    size_bytes, digest, content = None, None, None
    if node.split is None:
        keep = nested is not None or not attachment
        size_bytes, digest, content = _decoded(space, node, coding, keep, budget, notes)
    content_id = header.first("content-id")
    kind = header.first("content-type")
    part = Part(
        path=node.path,
        parent=node.parent,
        type=node.type,
        declared_type="" if kind is None else value_of(kind),
        charset=header.media.charset,
        disposition=shown,
        coding=coding,
        declared_coding="" if declared is None else words,
        content_id="" if content_id is None else content_id.value,
        name=name,
        attachment=attachment,
        header_offset=header.start,
        header_length=header.end - header.start,
        offset=node.body.start,
        length=node.body.end - node.body.start,
        size_bytes=size_bytes,
        sha256=digest,
        message=nested if content is not None else None,
        preamble=None if node.split is None else _span(node.split.preamble),
        epilogue=None if node.split is None or node.split.epilogue is None else _span(node.split.epilogue),
    )
    return Held(part, content)


def decoded_bytes(data: bytes, offset: int, length: int, coding: Coding) -> bytes:
    """What the body at a place decodes to; the place need not exist."""
    return b"".join(_chunks(Space(data, ""), offset, offset + length, coding, set()))


def attachment_of(part: Part) -> Attachment:
    """A part as an attachment of its message."""
    name = part.name
    return Attachment(
        part.path,
        part.type,
        None if name is None else name.value,
        None if name is None else name.raw,
        part.size_bytes,
        part.sha256,
        part.message,
        part.offset,
        part.length,
    )


def _span(region: Region) -> Span:
    return Span(region.start, region.end - region.start)


def _name(node: Node, notes: Notes) -> FileName | None:
    """The file name: `filename*`, `filename` of Content-Disposition, then `name` of Content-Type."""
    flags: set[DefectKind] = set()
    most = notes.limits.parameter_sections
    for field_name, parameter in (("content-disposition", "filename"), ("content-type", "name")):
        field = node.header.first(field_name)
        if field is None or "name" not in field.raw.lower():
            continue
        found, cut = file_name(field, parameter, flags, most)
        if cut:
            notes.hit("parameter_sections", node.path)
        for flag in sorted(flags):
            notes.defect(flag, node.path, field.offset, field.length)
        if found is not None:
            return found
    return None


def _coding(node: Node, notes: Notes) -> tuple[Coding, str]:
    """The coding that is undone and the word that declares it; an unknown one is left as it is."""
    declared = node.header.first("content-transfer-encoding")
    if declared is None:
        return "identity", ""
    word = text_of(declared.raw.partition("(")[0].partition(";")[0].strip(" \t\r\n\"'")).lower()
    known = _CODINGS.get(word)
    if known is None and word not in _IDENTITY:
        notes.defect("coding_unknown", node.path, declared.offset, declared.length)
    return known or "identity", word


def _decoded(
    space: Space, node: Node, coding: Coding, keep: bool, budget: Budget, notes: Notes
) -> tuple[int | None, str | None, bytes | None]:
    """Size, SHA-256 and, where they are kept, the decoded bytes."""
    start, end = node.body.start, node.body.end
    if end - start > budget.decoded_bytes:
        notes.hit("decoded_bytes", node.path)
        return None, None, None
    flags: set[DefectKind] = set()
    size_bytes, digest, kept = 0, hashlib.sha256(), list[bytes]()
    for chunk in _chunks(space, start, end, coding, flags):
        size_bytes += len(chunk)
        digest.update(chunk)
        if keep:
            kept.append(bytes(chunk))
    budget.decoded_bytes -= size_bytes
    for flag in sorted(flags):
        notes.defect(flag, node.path, start, end - start)
    return size_bytes, digest.hexdigest(), b"".join(kept) if keep else None


def _chunks(space: Space, start: int, end: int, coding: Coding, flags: set[DefectKind]) -> Iterator[bytes | memoryview]:
    if coding == "base64":
        return base64_chunks(space.data[start:end], flags)
    if coding == "quoted-printable":
        return quoted_printable_chunks(space.data[start:end], flags)
    if coding == "uuencode":
        return iter((uuencode.whole_body(space.lines[start:end], flags),))
    return iter((memoryview(space.data)[start:end],))
