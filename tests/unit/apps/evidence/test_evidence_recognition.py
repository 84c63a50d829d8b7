"""Recognising an original by its content."""

from __future__ import annotations

from pathlib import Path

import pytest

from perenne.apps.evidence.recognition import JPEG, MAIL, PNG, recognise


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\nrest", PNG),
        ("a.eml", b"\x89PNG\r\n\x1a\nrest", PNG),
        ("a", b"\xff\xd8\xff\xe0", JPEG),
        ("a.png", b"\xff\xd8\xff\xdb", JPEG),
        ("a.eml", b"From: a@example.test\r\n\r\n", MAIL),
        ("A.EML", b"Received:x\n", MAIL),
        ("a.eml", b"X-Odd~Name : v\n", MAIL),
        ("a.eml", b"From a@example.test Sat Sep 26 21:00:00 2026\nTo: b\n", MAIL),
        ("a.eml", b">From a@example.test\nTo: b\n", MAIL),
        ("a.eml", b"\xef\xbb\xbfSubject: x\n", MAIL),
        ("a.txt", b"From: a@example.test\r\n\r\n", None),
        ("a.eml", b"Hello, this is no mail\n", None),
        ("a.eml", b" folded: first\n", None),
        ("a.eml", b"\n\nFrom: a\n", None),
        ("a.eml", b"", None),
        ("a.eml", b"\x00From: a\n", None),
        ("a.png", b"\x89PNG\r\n", None),
        ("a.gif", b"GIF89a", None),
        ("a.eml", b"PK\x03\x04", None),
        ("a.eml", b"%PDF-1.7\n", None),
    ],
)
def test_recognised(name: str, content: bytes, expected: object) -> None:
    """Pictures are known by their signature under any name, mail by its first field and its name."""
    assert recognise(name, content) is expected


def test_long_line_ends_quickly() -> None:
    """A megabyte without a colon is refused, not searched for ever."""
    assert recognise("a.eml", b"A" * (4 << 20)) is None
    assert recognise("a.eml", b"From " + b"A" * (4 << 20)) is None


def test_real_mails_and_pictures(shared_data: Path) -> None:
    """Every mail, PNG and JPEG of the shared data is recognised, but for the PNG whose signature is damaged."""
    mails = sorted((shared_data / "evidence" / "eml").glob("*.eml"))
    assert mails
    assert [path.name for path in mails if recognise(path.name, path.read_bytes()) is not MAIL] == []
    pictures = [path for path in (shared_data / "evidence" / "img").iterdir() if path.suffix in {".jpg", ".png"}]
    strangers = [path.name for path in pictures if recognise(path.name, path.read_bytes()) not in (PNG, JPEG)]
    assert strangers == ["pngsuite-xlfn0g04.png"]
