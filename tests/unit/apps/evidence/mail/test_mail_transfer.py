"""Transfer codings: base64, quoted-printable, uuencode, in chunks and never failing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perenne.apps.evidence.mail import transfer, uuencode
from perenne.apps.evidence.mail.defects import DefectKind

Chunks = Callable[[bytes, set[DefectKind]], Iterator[bytes]]


def decoded(chunks: Chunks, raw: bytes) -> tuple[bytes, set[DefectKind]]:
    flags: set[DefectKind] = set()
    return b"".join(chunks(raw, flags)), flags


@pytest.mark.parametrize(
    ("raw", "data", "flags"),
    [
        (b"aGVsbG8=\r\n", b"hello", set()),
        (b"SN\r\nIP", b"\x48\xd2\x0f", set()),
        # Missing padding loses nothing (odoo/odoo#25828).
        (b"aGVsbG8", b"hello", {"base64_incomplete"}),
        (b"aGVsbG8==", b"hello", {"base64_incomplete"}),
        (b"YWJjY", b"abc", {"base64_incomplete"}),
        (b"aGVs*bG8=", b"hello", {"base64_illegal_character"}),
        (b"aGVsbG8=\nfooter", b"hello", {"base64_after_padding"}),
        (b"=aGVsbG8=", b"hello", set()),
        (b"", b"", set()),
    ],
)
def test_base64(raw: bytes, data: bytes, flags: set[DefectKind]) -> None:
    """What is there is decoded, and what is odd is flagged."""
    assert decoded(transfer.base64_chunks, raw) == (data, flags)


@pytest.mark.parametrize(
    ("raw", "data", "flags"),
    [
        (b"caf=C3=a9 \t\r\nx=\r\ny", b"caf\xc3\xa9\r\nxy", set()),
        (b"some blanks  =20\r\n", b"some blanks   \r\n", set()),
        # Encoded line ends stay as they are (mikel/mail#493).
        (b"a=0D=0Ab", b"a\r\nb", set()),
        (b"end=", b"end", set()),
        (b"a=b=\nc", b"a=bc", {"qp_malformed"}),
        (b"a==41", b"a=A", {"qp_malformed"}),
        (b"soft= \r\nbreak", b"softbreak", set()),
    ],
)
def test_quoted_printable(raw: bytes, data: bytes, flags: set[DefectKind]) -> None:
    """Escapes are undone, soft breaks and blanks before a line end go, what escapes nothing stays."""
    assert decoded(transfer.quoted_printable_chunks, raw) == (data, flags)


@given(
    data=st.binary(max_size=300) | st.text(" \t=\r\nA4", max_size=60).map(str.encode), chunk_bytes=st.integers(4, 50)
)
def test_chunks_change_nothing(data: bytes, chunk_bytes: int) -> None:
    """However small the chunks are, what a writer encoded comes out."""
    encoders: list[tuple[Callable[[bytes], bytes], Chunks]] = [
        (base64.encodebytes, transfer.base64_chunks),
        (lambda raw: binascii.b2a_qp(raw, istext=False), transfer.quoted_printable_chunks),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "CHUNK_BYTES", chunk_bytes)
        for encode, chunks in encoders:
            assert decoded(chunks, encode(data))[0] == data


@given(raw=st.text(" \t=\r\nA4", max_size=60).map(str.encode), chunk_bytes=st.integers(4, 20))
def test_chunks_change_nothing_in_odd_texts(raw: bytes, chunk_bytes: int) -> None:
    """What no writer encoded decodes to the same in chunks as in one piece."""
    for chunks in (transfer.base64_chunks, transfer.quoted_printable_chunks):
        whole = decoded(chunks, raw)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transfer, "CHUNK_BYTES", chunk_bytes)
            assert decoded(chunks, raw) == whole


@given(raw=st.binary(max_size=200))
def test_no_bytes_raise(raw: bytes) -> None:
    """Any bytes decode to something."""
    for chunks in (transfer.base64_chunks, transfer.quoted_printable_chunks):
        decoded(chunks, raw)
    assert isinstance(uuencode.whole_body(raw, set()), bytes)


def test_uuencoded_blocks_are_found_within_a_text() -> None:
    """A block begins at a line `begin`, ends at a line `end`, and one that nothing ends reaches the end."""
    block = b"begin 644 a b.txt\r\n" + binascii.b2a_uu(b"hello") + b"`\r\nend\r\n"
    flags: set[DefectKind] = set()
    text = b"see begin 644 no\n" + block + b"between\n" + block.replace(b"end\r\n", b"")
    found = list(uuencode.blocks_in(text, flags))
    assert [(one.name, one.content) for one in found] == [(b"a b.txt", b"hello")] * 2
    assert text[found[0].start : found[0].end] == block
    assert flags == {"uuencode_malformed"}
