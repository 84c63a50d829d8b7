"""The fields of one header block, each with its place (RFC 5322 section 2.2).

Here: the cut into fields, lines that are none, where the header really ends. Not here: what a field means.
"""

from __future__ import annotations

import re

import msgspec

from perenne.apps.evidence.mail.defects import DefectKind
from perenne.apps.evidence.mail.header_facts import Field
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.parameters import NO_TYPE, MediaType, media_type
from perenne.apps.evidence.mail.splitter import Region, header_end, is_boundary_line
from perenne.apps.evidence.mail.words import Flags, decode

# A line end that no fold follows; the field and its folds stand between two of them.
_FIELD_END = re.compile(rb"\r?\n(?![ \t])")
# What makes a text differ from its raw form: a word, a fold, a run of blanks, a NUL.
_ODD = re.compile(r"=\?|[\r\n\t\0]|  ")
_BLANKS = b" \t\r\n"
_FIELD = re.compile(rb"([!-9;-~]+)([ \t]*):[ \t\r\n]*")
_MBOX = (b"From ", b">From ")


class Header(msgspec.Struct, frozen=True):
    """The fields of a header, by name and in their order; the block they stand in; where the body begins."""

    fields: tuple[Field, ...]
    named: dict[str, list[Field]]
    media: MediaType
    start: int
    end: int
    body: int

    def all(self, name: str) -> list[Field]:
        """The fields of a name in their order."""
        return self.named.get(name, [])

    def first(self, name: str) -> Field | None:
        """The first field of a name."""
        found = self.named.get(name)
        return found[0] if found else None


def read(data: bytes, lines: bytes, region: Region, part: str, notes: Notes) -> Header:
    """The header at the beginning of a region.

    A line that is no field is skipped; where such lines end the block, or its boundary stands in it, the body begins.

    Args:
        lines: the bytes with line feeds, see `splitter.with_line_feeds`.
        part: the path of the part whose header it is.
    """
    end, body = header_end(lines, region)
    read_to = min(end, region.start + notes.limits.header_block_bytes)
    if read_to < end:
        notes.hit("header_block_bytes", part)
    reading = _Reading(data, part, notes)
    early = reading.read(lines, Region(region.start, read_to))
    if early is not None:
        notes.defect("header_unterminated", part, early, 0)
        end = body = early
    return Header(tuple(reading.fields), reading.named, reading.media, region.start, end, body)


class _Reading:
    """The fields of one block as they are met."""

    def __init__(self, data: bytes, part: str, notes: Notes) -> None:
        self.fields: list[Field] = []
        self.named: dict[str, list[Field]] = {}
        self.media = NO_TYPE
        self._data, self._part, self._notes = data, part, notes
        self._boundary = b""

    def read(self, lines: bytes, region: Region) -> int | None:
        """Read all fields; where the body begins, when no empty line says so."""
        skipped: list[Region] = []
        for line in _logical_lines(lines, region):
            if self._boundary and is_boundary_line(lines, self._boundary, line.start, region.end):
                self._note_skipped(skipped)
                return line.start
            if not self._take(line):
                skipped.append(line)
            elif skipped:
                self._note_skipped(skipped)
                skipped = []
            if len(self.fields) == self._notes.limits.fields:
                self._notes.hit("fields", self._part)
                return None
        if skipped and self.fields:
            return skipped[0].start
        self._note_skipped(skipped)
        return None

    def _take(self, line: Region) -> bool:
        found = self._field(line)
        if found is None:
            return False
        self.fields.append(found)
        if found.name == "content-type" and found.occurrence == 1:
            self.media = media_type(found)
            self._boundary = self.media.boundary.encode("latin-1")
        return True

    def _field(self, line: Region) -> Field | None:
        data = self._data
        match = _FIELD.match(data, line.start, line.end)
        if match is None:
            return None
        bare, blanks = match.groups()
        if blanks:
            self._notes.defect("space_before_colon", self._part, line.start, len(bare) + len(blanks))
        name = bare.decode("ascii").lower()
        same = self.named.setdefault(name, [])
        offset = match.end()
        raw = data[offset : line.end].rstrip(_BLANKS).decode("latin-1")
        decoded = _value(raw, offset, self._part, self._notes)
        found = Field(name, len(same) + 1, raw, decoded, self._part, line.start, line.end - line.start, offset)
        same.append(found)
        return found

    def _note_skipped(self, skipped: list[Region]) -> None:
        for line in skipped:
            mbox = self._data.startswith(_MBOX, line.start) and not line.start - skipped[0].start
            kind: DefectKind = "mbox_line" if mbox else "header_line_skipped"
            self._notes.defect(kind, self._part, line.start, line.end - line.start)


def _logical_lines(lines: bytes, region: Region) -> list[Region]:
    start, found = region.start, []
    for end in _FIELD_END.finditer(lines, region.start, region.end):
        found.append(Region(start, end.start()))
        start = end.end()
    if start < region.end:
        found.append(Region(start, region.end))
    return found


def _value(raw: str, offset: int, part: str, notes: Notes) -> str:
    short = len(raw) <= notes.limits.value_bytes
    if short and raw.isascii() and not _ODD.search(raw):
        return raw
    if not short:
        notes.hit("value_bytes", part)
    flags: Flags = set()
    value = decode(raw[: notes.limits.value_bytes], flags)
    if not raw.isascii():
        flags.add("header_8bit")
    if "\0" in raw:
        flags.add("header_nul")
    for flag in sorted(flags):
        notes.defect(flag, part, offset, len(raw))
    return value
