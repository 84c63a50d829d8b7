"""Where the header of a mail ends, and its fields one by one, as text.

Here: the split, unfolding, valid text. Not here: what a field means. Nothing in this file looks at the body.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from perenne.errors import InvalidInput, TooLarge

MAX_FILE_BYTES = 25 * 1024 * 1024
MAX_HEADER_BYTES = 2 * 1024 * 1024

_NAME_BYTES = bytes(byte for byte in range(0x21, 0x7F) if byte != ord(":"))
_BLANKS = b" \t\r"


def _windows_1252() -> dict[int, str]:
    """What Windows-1252 prints for the bytes 80 to 9F; the five that it leaves open stay control characters."""
    printed = {byte: bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xA0)}
    return {byte: character for byte, character in printed.items() if character}


_WINDOWS_1252 = _windows_1252()


class Field(msgspec.Struct, frozen=True):
    """One header field: its name in lower case, its value unfolded and trimmed."""

    name: str
    value: str


def header_block(content: bytes) -> bytes:
    """The bytes before the first empty line, whether it ends in LF or CRLF (L:A-1, T-23).

    Raises:
        InvalidInput: the file is empty, has no empty line, or starts with it.
        TooLarge: the file is over 25 MiB or the header block over 2 MiB.
    """
    if not content:
        raise InvalidInput("the mail is empty (0 bytes); give a file with a header and an empty line", size_bytes=0)
    _refuse_over("mail", len(content), MAX_FILE_BYTES)
    end = _first_empty_line(content)
    if end < 0:
        raise InvalidInput(
            f"the mail of {len(content)} bytes has no empty line (LF LF or CR LF CR LF) after its header; "
            f"check that it is an EML file",
            size_bytes=len(content),
        )
    _refuse_over("header block", end, MAX_HEADER_BYTES)
    block = content[:end]
    if not block.strip(_BLANKS):
        raise InvalidInput("the mail starts with an empty line, so it has no header; check that it is an EML file")
    return block


def fields_of(block: bytes) -> tuple[Field, ...]:
    """The fields of a header block in their order, repeated ones kept (L:A-2).

    A line without a colon or with a name that no header can have is skipped together with its continuations.
    """
    return tuple(Field(_name_of(name), _text(b" ".join(parts))) for name, parts in _unfolded(block))


def _refuse_over(what: str, size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise TooLarge(
            f"the {what} has {size_bytes} bytes, the limit is {limit_bytes}; analyse this file with another tool",
            size_bytes=size_bytes,
            limit_bytes=limit_bytes,
        )


def _first_empty_line(content: bytes) -> int:
    """Index just after the line that precedes the first empty line, -1 when there is none."""
    found = [index for index in (content.find(b"\n\n"), content.find(b"\n\r\n")) if index >= 0]
    return min(found, default=-1)


def _unfolded(block: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    name, parts = b"", list[bytes]()
    for line in block.split(b"\n"):
        if line[:1] in (b" ", b"\t"):
            parts.append(line.strip(_BLANKS))
            continue
        if name:
            yield name, [part for part in parts if part]
        name, parts = _split_line(line)
    if name:
        yield name, [part for part in parts if part]


def _split_line(line: bytes) -> tuple[bytes, list[bytes]]:
    name, colon, value = line.partition(b":")
    name = name.rstrip(_BLANKS)
    if not colon or name.translate(None, _NAME_BYTES):
        return b"", []
    return name, [value.strip(_BLANKS)]


def _name_of(raw: bytes) -> str:
    return raw.decode("ascii").lower()


def _text(raw: bytes) -> str:
    """UTF-8 when the whole value is valid UTF-8, else Windows-1252 byte by byte; it never fails."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1").translate(_WINDOWS_1252)
