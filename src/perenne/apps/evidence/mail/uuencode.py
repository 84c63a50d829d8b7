"""Files that are uuencoded: the whole body of a part, or a block within a text.

Here: the blocks, decoded line by line, never failing. Not here: which part it is.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_uu
from collections.abc import Iterator

import msgspec

from perenne.apps.evidence.mail.defects import DefectKind

_BEGIN = re.compile(rb"(?:\A|(?<=\n))begin(?:-base64)? [0-7]{3,4} ([^\r\n]+)\r?\n")
_END = re.compile(rb"(?<=\n)end[ \t]*(?:\r?\n|\Z)")
_LINE = re.compile(rb"[^\n]+")
_MOST_LINE_BYTES = 1_000


class Block(msgspec.Struct, frozen=True, gc=False):
    """A uuencoded file from `start` to before `end` of the text that holds it."""

    name: bytes
    content: bytes
    start: int
    end: int


def blocks_in(lines: bytes, flags: set[DefectKind]) -> Iterator[Block]:
    """The files between `begin` and `end` lines; one without an `end` reaches the end of the text."""
    at = 0
    while (begin := _BEGIN.search(lines, at)) is not None:
        end = _END.search(lines, begin.end())
        stop = len(lines) if end is None else end.start()
        if begin.group().startswith(b"begin-base64"):
            at = begin.end()
            continue
        if end is None:
            flags.add("uuencode_malformed")
        content = decoded_lines(lines[begin.end() : stop], flags)
        at = len(lines) if end is None else end.end()
        yield Block(begin.group(1).rstrip(), content, begin.start(), at)


def decoded_lines(lines: bytes, flags: set[DefectKind]) -> bytes:
    """The bytes of uuencoded lines; a line that is none is skipped and flagged."""
    return b"".join(_line(line.group().rstrip(b"\r"), flags) for line in _LINE.finditer(lines))


def whole_body(lines: bytes, flags: set[DefectKind]) -> bytes:
    """The bytes of a part whose transfer coding is uuencode, with or without its `begin` line."""
    first = next(blocks_in(lines, flags), None)
    return decoded_lines(lines, flags) if first is None else first.content


def _line(line: bytes, flags: set[DefectKind]) -> bytes:
    if not line:
        return b""
    try:
        return a2b_uu(line)
    except Error:
        pass
    # Some writers pad a line with more letters than its length asks for.
    needed = 1 + ((((line[0] - 32) & 63) * 4) + 5) // 3
    flags.add("uuencode_malformed")
    if len(line) > _MOST_LINE_BYTES:
        return b""
    try:
        return a2b_uu(line[:needed])
    except Error:
        return b""
