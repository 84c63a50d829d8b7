"""Where a header ends and where the parts of a multipart lie, in bytes.

Here: lines and boundaries (RFC 2046 section 5.1.1). Not here: what a field or a part means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

_BLANK_LINE = re.compile(rb"\n\r?\n")
_LINE_BLANKS = b" \t\r"
_LF, _CR = 10, 13

LineEnds = Literal["crlf", "lf", "cr", "mixed", "none"]


class Region(msgspec.Struct, frozen=True, gc=False):
    """A run of bytes: from `start` to before `end`."""

    start: int
    end: int


class Split(msgspec.Struct, frozen=True, gc=False):
    """A multipart taken apart: its parts in order, and what lies before, between and after.

    `closed`: the closing boundary was found. `late`: where a boundary stands after it, None when none does.
    `cut`: more parts than were asked for stand here.
    """

    parts: list[Region]
    preamble: Region
    epilogue: Region | None
    closed: bool
    late: int | None
    cut: bool


class Delimiter(msgspec.Struct, frozen=True, gc=False):
    """A boundary line: what stands before it ends at `before`, what follows begins at `after`."""

    before: int
    at: int
    after: int
    closes: bool


def line_ends(data: bytes) -> LineEnds:
    """How the lines of these bytes end; a lone CR counts only where no LF stands at all."""
    feeds = data.count(b"\n")
    if not feeds:
        return "cr" if b"\r" in data else "none"
    pairs = data.count(b"\r\n")
    return "crlf" if pairs == feeds else "mixed" if pairs else "lf"


def with_line_feeds(data: bytes, ends: LineEnds) -> bytes:
    """The same bytes at the same places, lines ending in LF or CR LF: a file with lone CR gets LF instead."""
    return data.replace(b"\r", b"\n") if ends == "cr" else data


def header_end(lines: bytes, region: Region) -> tuple[int, int]:
    """Where the header block ends (before its last line end) and where the body begins.

    A region that begins with an empty line has no header; one without an empty line has no body.
    """
    start, end = region.start, region.end
    if lines.startswith(b"\n", start, end):
        return start, start + 1
    if lines.startswith(b"\r\n", start, end):
        return start, start + 2
    blank = _BLANK_LINE.search(lines, start, end)
    return (end, end) if blank is None else (before_line_end(lines, blank.start() + 1, start), blank.end())


def before_line_end(lines: bytes, at: int, start: int) -> int:
    """`at` without the line end just before it, never before `start`."""
    if at > start and lines[at - 1] == _LF:
        at -= 1
        if at > start and lines[at - 1] == _CR:
            at -= 1
    return at


def split(lines: bytes, boundary: bytes, region: Region, most_parts: int) -> Split:
    """The parts between the boundary lines of a region; without a closing line the last part reaches its end."""
    parts: list[Region] = []
    opened, closed, late = -1, False, None
    preamble_end, epilogue = region.end, None
    for found in _delimiters(lines, b"--" + boundary, region):
        if closed:
            late = found.at
            break
        if opened < 0:
            preamble_end = found.before
        elif len(parts) == most_parts:
            return Split(parts, Region(region.start, preamble_end), None, True, None, True)
        else:
            parts.append(Region(opened, max(opened, found.before)))
        opened, closed = found.after, found.closes
    if closed:
        epilogue = Region(opened, region.end)
    elif opened >= 0 and len(parts) < most_parts:
        parts.append(Region(opened, region.end))
    return Split(parts, Region(region.start, preamble_end), epilogue, closed, late, False)


def glued_close(lines: bytes, boundary: bytes, region: Region) -> int:
    """Where the closing boundary stands within another line, where it counts for nothing; -1 when it does not."""
    return lines.find(b"--" + boundary + b"--", region.start, region.end)


def is_boundary_line(lines: bytes, boundary: bytes, at: int, end: int) -> bool:
    """Whether the line at `at` is this boundary, opening or closing."""
    return _delimiter_at(lines, b"--" + boundary, at, Region(at, end)) is not None


def _delimiters(lines: bytes, needle: bytes, region: Region) -> Iterator[Delimiter]:
    at = lines.find(needle, region.start, region.end)
    while at >= 0:
        found = None
        if at == region.start or lines[at - 1] == _LF:
            found = _delimiter_at(lines, needle, at, region)
        if found is not None:
            yield found
        at = lines.find(needle, at + len(needle) if found is None else found.after, region.end)


def _delimiter_at(lines: bytes, needle: bytes, at: int, region: Region) -> Delimiter | None:
    """The boundary line at `at`: the boundary, `--` when it closes, then nothing but blanks (RFC 2046, padding)."""
    end = at + len(needle)
    if not lines.startswith(needle, at, region.end):
        return None
    closes = lines.startswith(b"--", end, region.end)
    feed = lines.find(b"\n", end, region.end)
    line_end = region.end if feed < 0 else feed
    if lines[end + 2 * closes : line_end].strip(_LINE_BLANKS):
        return None
    after = region.end if feed < 0 else feed + 1
    return Delimiter(before_line_end(lines, at, region.start), at, after, closes)
