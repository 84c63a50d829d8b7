"""Transfer codings: base64 and quoted-printable (RFC 2045 section 6), in chunks, never failing.

Here: bytes in, decoded bytes out, what was odd noted. Not here: charsets, uuencode, which part it is.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterator

from perenne.apps.evidence.mail.defects import DefectKind

Flags = set[DefectKind]

CHUNK_BYTES = 1 << 20

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_ALPHABET = bytes(byte for byte in range(256) if byte not in _ALPHABET)
_BLANKS = b" \t\r\n"
_EQUALS = re.compile(rb"=*")
_HEX = {
    f"{high}{low}".encode(): bytes([int(f"{high}{low}", 16)])
    for high in "0123456789ABCDEFabcdef"
    for low in "0123456789ABCDEFabcdef"
}
# The look-behind lets each run of blanks be tried once, at its beginning.
_INNER_PADDING = re.compile(rb"(?<![ \t])[ \t]+(?=\r?\n|\r)")
_PADDING = re.compile(rb"(?<![ \t])[ \t]+(?=\r?\n|\r|\Z)")
_BLANK_RUN = re.compile(rb"[ \t\r]*")
_SOFT_BREAKS = (b"\r\n", b"\n", b"\r")


def base64_chunks(raw: bytes, flags: Flags) -> Iterator[bytes]:
    """The decoded bytes: what is outside the alphabet is skipped, and a `=` that can be padding ends the data.

    RFC 2045 section 6.8; a `=` before the third letter of a group is no padding.
    """
    held, end, start = b"", len(raw), 0
    padding = -1
    while start < end:
        equals = raw.find(b"=", start, end)
        stop = end if equals < 0 else equals
        for at in range(start, stop, CHUNK_BYTES):
            chunk = raw[at : min(at + CHUNK_BYTES, stop)]
            letters = held + chunk.translate(None, _NOT_ALPHABET)
            if "base64_illegal_character" not in flags and chunk.translate(None, _ALPHABET + _BLANKS):
                flags.add("base64_illegal_character")
            whole = len(letters) & ~3
            held = letters[whole:]
            if whole:
                yield a2b_base64(letters[:whole])
        if equals >= 0 and len(held) > 1:
            padding = equals
            break
        start = _EQUALS.match(raw, stop).end()  # type: ignore[union-attr]
    if len(held) > 1:
        yield a2b_base64(held + b"=" * (4 - len(held)))
    _note_end(raw, padding, len(held), flags)


def base64_bytes(raw: bytes, flags: Flags) -> bytes:
    """The decoded bytes of a short text, as `base64_chunks`."""
    return b"".join(base64_chunks(raw, flags))


def quoted_printable_chunks(raw: bytes, flags: Flags) -> Iterator[bytes]:
    """The decoded bytes; blanks before a line end are no data (rule 3), a `=` that escapes nothing stays."""
    start = 0
    while start < len(raw):
        end = _line_cut(raw, start)
        yield _quoted_printable(raw[start:end], flags, final=end == len(raw))
        start = end


def q_bytes(raw: bytes) -> bytes:
    """The bytes of a Q encoded word (RFC 2047 section 4.2)."""
    return _escaped_bytes(raw.replace(b"_", b" "), b"=")


def percent_bytes(raw: bytes) -> bytes:
    """The bytes of a percent-encoded value (RFC 2231 section 4)."""
    return _escaped_bytes(raw, b"%")


def _escaped_bytes(raw: bytes, mark: bytes) -> bytes:
    first, *pieces = raw.split(mark)
    out = [first]
    for piece in pieces:
        byte = _HEX.get(piece[:2])
        out.append(mark + piece if byte is None else byte + piece[2:])
    return b"".join(out)


def _note_end(raw: bytes, padding: int, held: int, flags: Flags) -> None:
    """RFC 4648 section 4: a last group of two letters has two `=`, one of three has one, a whole one none."""
    if padding < 0:
        if held:
            flags.add("base64_incomplete")
        return
    rest = raw[padding:]
    if rest.translate(None, b"=" + _BLANKS):
        flags.add("base64_after_padding")
    elif rest.count(b"=") != 4 - held:
        flags.add("base64_incomplete")


def _line_cut(raw: bytes, start: int) -> int:
    """Where a chunk ends: after a line end, else so that no escape and no run of blanks is cut."""
    end = start + CHUNK_BYTES
    if end >= len(raw):
        return len(raw)
    feed = raw.rfind(b"\n", start, end)
    if feed >= 0:
        return feed + 1
    kept = raw[start:end].rstrip(b" \t\r")
    escape = kept.rfind(b"=", max(0, len(kept) - 2))
    cut = len(kept) if escape < 0 else escape
    if cut:
        return start + cut
    after = _BLANK_RUN.match(raw, start + len(kept)).end()  # type: ignore[union-attr]
    return after + raw.startswith(b"\n", after)


def _quoted_printable(raw: bytes, flags: Flags, *, final: bool) -> bytes:
    if b" " in raw or b"\t" in raw:
        raw = (_PADDING if final else _INNER_PADDING).sub(b"", raw)
    first, *pieces = raw.split(b"=")
    if final and pieces and not pieces[-1]:
        pieces.pop()  # a soft break at the very end, without its line end
    out = [first]
    for piece in pieces:
        byte = _HEX.get(piece[:2])
        if byte is not None:
            out.append(byte + piece[2:])
        elif piece:
            out.append(_unescaped(piece, flags))
        else:
            flags.add("qp_malformed")
            out.append(b"=")
    return b"".join(out)


def _unescaped(piece: bytes, flags: Flags) -> bytes:
    for line_end in _SOFT_BREAKS:
        if piece.startswith(line_end):
            return piece[len(line_end) :]
    flags.add("qp_malformed")
    return b"=" + piece
