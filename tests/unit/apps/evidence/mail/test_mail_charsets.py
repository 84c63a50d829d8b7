"""Charsets: labels as writers spell them, and what is read when they are wrong."""

from __future__ import annotations

import codecs

import pytest

from perenne.apps.evidence.mail import charsets


@pytest.mark.parametrize(
    ("data", "label", "text", "known", "fits"),
    [
        (b"\xc3\xa9", "utf-8", "é", True, True),
        (b"\xc3\xa9", "UTF8", "é", True, True),
        (b"\xc3\xa9", "uft-8", "é", True, True),
        (b"\xe9", "iso-8859-1", "é", True, True),
        (b"\x80", "iso-8859-1", "€", True, True),
        (b"\x81", "iso-8859-1", "\x81", True, True),
        (b"\xf9", "iso-8859-8-i", "ש", True, True),
        (b"\xb5\xc4", "gb2312", "的", True, True),
        (b"\xc7\xd1", "ks_c_5601-1987", "한", True, True),
        (b"\xc3\xa9", "", "é", True, True),
        (b"\xe9", "", "é", True, True),
        (b"\xc3\xa9", "us-ascii", "é", True, False),
        (b"\xe9", "us-ascii", "é", True, False),
        (b"\xc3\xa9", "nonsense", "é", False, True),
        (b"a\0", "utf-8", "a␀", True, True),
        (b"a\0b\0c", "utf-16le", "ab\ufffd", True, False),
        (b"\xb5\xc4\xff", "gb2312", "的\ufffd", True, False),
        (b"Dij\x8aat", "iso-2022-jp", "DijŠat", True, False),
        (b"abc", "base64", "abc", False, True),
        (b"abc", "punycode", "abc", False, True),
        (b"+2AA-", "utf-7", "+2AA-", True, False),
    ],
)
def test_decoding(data: bytes, label: str, text: str, known: bool, fits: bool) -> None:
    """Some text comes out in any case; an unknown label, and bytes that do not fit it, are told apart."""
    found = charsets.decoded(data, label)
    assert (found.text, found.known, found.fits) == (text, known, fits)
    found.text.encode()


def test_every_charset_of_the_table_exists() -> None:
    """Each label means a codec of Python that decodes bytes to text."""
    for codec in set(charsets._CODECS.values()):
        assert codecs.lookup(codec)._is_text_encoding


@pytest.mark.parametrize("label", sorted(set(charsets._CODECS)))
def test_no_bytes_raise(label: str) -> None:
    """All byte values under each label give a text that can be written as UTF-8."""
    for data in (bytes(range(256)), bytes(range(255, -1, -1)), b"\xd8\x00", b"\x00\xd8", b"\x1b$B\xff", b"~{"):
        charsets.decoded(data, label).text.encode()
