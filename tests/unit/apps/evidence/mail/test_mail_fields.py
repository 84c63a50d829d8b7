"""The fields of a header block: order, places, lines that are none, where the header really ends."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import headers, splitter
from perenne.apps.evidence.mail.headers import Header
from perenne.apps.evidence.mail.limits import Limits
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.splitter import Region


def read(data: bytes, limits: Limits | None = None) -> tuple[Header, Notes]:
    notes = Notes(limits or Limits())
    lines = splitter.with_line_feeds(data, splitter.line_ends(data))
    return headers.read(data, lines, Region(0, len(data)), "", notes), notes


def kinds(notes: Notes) -> list[str]:
    return [defect.kind for defect in notes.defects]


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
def test_all_three_line_ends_are_read(end: bytes) -> None:
    """CR LF, LF and lone CR give the same fields (mikel/mail#1129); places count in the bytes as they stand."""
    data = end.join([b"A: one", b" two", b"B:three", b"", b"body"])
    header, _ = read(data)
    assert [(one.name, one.value) for one in header.fields] == [("a", "one two"), ("b", "three")]
    assert data[header.body :] == b"body"
    first = header.fields[0]
    assert data[first.value_offset :].startswith(b"one" + end + b" two")
    assert first.raw.encode("latin-1") == b"one" + end + b" two"


def test_repeated_fields_are_all_kept_and_numbered() -> None:
    """No occurrence is lost; the first one is the one that is shown (nodemailer/mailparser#403)."""
    header, _ = read(b"From: a\nX: y\nfrom: b\n\n")
    assert [(one.value, one.occurrence) for one in header.all("from")] == [("a", 1), ("b", 2)]
    first = header.first("from")
    assert first is not None
    assert first.value == "a"


def test_a_line_that_is_no_field_is_skipped() -> None:
    """A banner before the header and a line without a colon cost only themselves (GOVCERT-LU/eml_parser#24)."""
    header, notes = read(b"external mail, take care\nSubject: x\nbroken line\nTo: y\n\nz")
    assert [one.name for one in header.fields] == ["subject", "to"]
    assert kinds(notes) == ["header_line_skipped", "header_line_skipped"]


def test_a_mbox_line_is_told_apart() -> None:
    """The separator line of a mailbox file is no field and no fault of the header."""
    header, notes = read(b"From a@b.example Sun May  8 19:07:09 2005\nSubject: x\n\n")
    assert [one.name for one in header.fields] == ["subject"]
    assert kinds(notes) == ["mbox_line"]


def test_lines_that_no_field_follows_are_the_body() -> None:
    """Where no empty line ends the header, the body begins at the first line after the last field."""
    data = b"Subject: x\nhello\nyou\n"
    header, notes = read(data)
    assert data[header.body :] == b"hello\nyou\n"
    assert kinds(notes) == ["header_unterminated"]


def test_its_own_boundary_ends_a_header() -> None:
    """A boundary line without an empty line before it begins the body (namecheap/fast_mail_parser#150)."""
    data = b'Content-Type: multipart/mixed; boundary="a: b"\n--a: b\n\nx'
    header, notes = read(data)
    assert data[header.body :].startswith(b"--a: b")
    assert len(header.fields) == 1
    assert kinds(notes) == ["header_unterminated"]


@pytest.mark.parametrize("first", [b"Status: RO", b"X-Odd: 1", b"Subject : x"])
def test_no_field_must_come_first(first: bytes) -> None:
    """A mail that begins with any field is one (apache/tika#40); a blank before the colon is a defect."""
    header, notes = read(first + b"\nTo: y\n\n")
    assert len(header.fields) == 2
    assert kinds(notes) == (["space_before_colon"] if b" :" in first else [])


def test_nul_and_eight_bits_are_shown_and_told() -> None:
    """NUL is a visible mark in the value and itself in the raw text (cyrusimap/cyrus-imapd#4603)."""
    header, notes = read(b"Subject: a\0b\xe9\n\n")
    assert (header.fields[0].value, header.fields[0].raw) == ("a␀bé", "a\0b\xe9")
    assert kinds(notes) == ["header_8bit", "header_nul"]


def test_bounds_are_told() -> None:
    """A block, a value and a number of fields over their bound are cut, and the bound is noted."""
    _, notes = read(b"a: " + b"x" * 100 + b"\nb: y\nc: z\n\n", Limits(value_bytes=10, fields=2))
    assert [hit.name for hit in notes.hits] == ["fields", "value_bytes"]
    header, notes = read(b"a: b\n" * 10 + b"\nbody", Limits(header_block_bytes=12))
    assert [hit.name for hit in notes.hits] == ["header_block_bytes"]
    assert header.body == 51
