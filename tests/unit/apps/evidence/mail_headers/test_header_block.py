"""The header block of a mail: where it ends, and its fields as text."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail_headers import header_block
from perenne.apps.evidence.mail_headers.header_block import MAX_FILE_BYTES, MAX_HEADER_BYTES, Field, fields_of
from perenne.errors import InvalidInput, TooLarge


def block_of(content: bytes) -> bytes:
    return header_block.header_block(content)


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (b"A: 1\r\nB: 2\r\n\r\nC: body\r\n", [Field("a", "1"), Field("b", "2")]),
        (b"A: 1\nB: 2\n\nC: body\n", [Field("a", "1"), Field("b", "2")]),
        (b"A: 1\n\nC: body\r\n\r\nD: body", [Field("a", "1")]),
        (b"A: 1\r\n\r\nC: body\n\nD: body", [Field("a", "1")]),
        (b"A: 1\n\r\nC: body\n\n", [Field("a", "1")]),
    ],
    ids=["crlf", "lf", "lf-then-crlf-in-the-body", "crlf-then-lf-in-the-body", "mixed"],
)
def test_header_ends_at_the_first_empty_line(content: bytes, fields: list[Field]) -> None:
    """Whatever the line ends, the first empty line ends the header, so no text of the body counts as a field."""
    assert list(fields_of(block_of(content))) == fields


@pytest.mark.parametrize(
    "content", [b"", b"\n\nbody", b"\r\n\r\nbody", b"From: a@b.test\r\nTo: c@d.test", b"A: 1\r\rbody"]
)
def test_what_has_no_header_is_refused(content: bytes) -> None:
    """An empty file, one without an empty line and one that starts with it are refused with a sentence."""
    with pytest.raises(InvalidInput, match="mail"):
        block_of(content)


def test_bounds_are_exact() -> None:
    """A header block of 2 MiB and a file of 25 MiB are read; one byte more is refused, naming the limit."""
    line = b"A: " + b"x" * (MAX_HEADER_BYTES - 3)
    assert len(block_of(line + b"\n\n")) == MAX_HEADER_BYTES
    with pytest.raises(TooLarge, match=str(MAX_HEADER_BYTES)):
        block_of(line + b"x\n\n")
    assert block_of(b"A: 1\n\n" + bytes(MAX_FILE_BYTES - 6)) == b"A: 1"
    with pytest.raises(TooLarge, match=str(MAX_FILE_BYTES)):
        block_of(b"A: 1\n\n" + bytes(MAX_FILE_BYTES - 5))


def test_folded_lines_are_joined_by_one_space() -> None:
    """A continuation, however indented and even when blank, joins with one space."""
    block = b"To:  a@x.test,\r\n\t  b@x.test,\r\n \r\n c@x.test  \r\nSubject:\r\n late"
    assert fields_of(block) == (Field("to", "a@x.test, b@x.test, c@x.test"), Field("subject", "late"))


def test_names_are_lower_case_and_repeats_kept() -> None:
    """Names are compared in lower case, blanks before the colon are dropped, repeated fields keep their order."""
    block = b"FROM : one\nX-Other: two\nFrom: three"
    assert fields_of(block) == (Field("from", "one"), Field("x-other", "two"), Field("from", "three"))


def test_lines_that_are_no_fields_are_skipped() -> None:
    """A banner, an mbox line, a line without colon and their continuations cost only themselves."""
    block = (
        b" lost\nFrom x@y.test Sun May  8 19:07:09 2005\nbanner\n\tof it\nTo: a@x.test\nn\xc3\xa4me: b@x.test\n c\n: d"
    )
    assert fields_of(block) == (Field("to", "a@x.test"),)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"caf\xc3\xa9 \xe2\x82\xac", "café €"),
        (b"caf\xe9 \x80", "café €"),
        (b"\xc3\xa9 and \xe9", "Ã© and é"),
        (b"\x81\x8d\x8f\x90\x9d", "\x81\x8d\x8f\x90\x9d"),
        (b"nul \x00 kept", "nul \x00 kept"),
    ],
)
def test_bytes_become_text(raw: bytes, text: str) -> None:
    """A value that is valid UTF-8 is read so, any other as Windows-1252; no byte is lost and none is refused."""
    assert fields_of(b"Subject: " + raw) == (Field("subject", text),)


def test_a_broken_field_does_not_change_its_neighbours() -> None:
    """The choice of charset is made for each field by itself."""
    assert fields_of(b"A: \xe9\nB: \xc3\xa9") == (Field("a", "é"), Field("b", "é"))
