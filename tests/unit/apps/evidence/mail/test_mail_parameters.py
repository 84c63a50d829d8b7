"""Parameters (RFC 2045, RFC 2231): types, boundaries, names of files."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import parameters
from perenne.apps.evidence.mail.defects import DefectKind
from perenne.apps.evidence.mail.header_facts import Field


def field(raw: str) -> Field:
    return Field("content-type", 1, raw, raw, "", 100, len(raw), 114)


@pytest.mark.parametrize(
    ("raw", "type_", "boundary"),
    [
        ('multipart/mixed; boundary="x y z"', "multipart/mixed", "x y z"),
        ('multipart/mixed\r\n\tboundary="b"', "multipart/mixed", "b"),
        ("Multipart/Mixed; boundary=b; charset=x", "multipart/mixed", "b"),
        ("multipart/digest; boundary=1;", "multipart/digest", "1"),
        ("multipart/mixed; boundary=b charset=utf-8", "multipart/mixed", "b"),
        ('multipart/mixed; boundary="open', "multipart/mixed", "open"),
        ("multipart/mixed; ;;; =x; boundary = b", "multipart/mixed", "b"),
        ("text", "", ""),
        ("", "", ""),
        ("/x; boundary=b", "", "b"),
    ],
)
def test_types_and_boundaries(raw: str, type_: str, boundary: str) -> None:
    """A missing semicolon, an unclosed quote and stray marks do not hide a boundary."""
    found = parameters.media_type(field(raw))
    assert (found.type, found.boundary) == (type_, boundary)


@pytest.mark.parametrize(
    ("raw", "value", "flags"),
    [
        ('a/b; name="one.gif"', "one.gif", set()),
        ("a/b; name=my file (1).pdf; x=y", "my file (1).pdf", set()),
        (r'a/b; name="q\"uote\\s\path"', r'q"uote\s\path', set()),
        ("a/b; name==?utf-8?B?w6k=?=", "é", set()),
        ('a/b; name="=?utf-8?B?44GL?=\r\n =?utf-8?B?44GN?="', "かき", set()),
        # Sections in any order, starred or not, joined as bytes before the charset (roundcube/roundcubemail#10268).
        ("a/b; name*1*=%A9.txt; name*0*=utf-8''caf%C3", "café.txt", set()),
        ("a/b; name*0*=utf-8''%C3%A9; name*1=%41.txt", "é%41.txt", set()),
        ('a/b; name*0="=?utf-8?q?a?="; name*1=".txt"', "a.txt", set()),
        ("a/b; name*=iso-8859-1'fr'%E9", "é", set()),
        ("a/b; name*=plain", "plain", set()),
        ("a/b; name=plain; name*=utf-8''star", "star", set()),
        ("a/b; name*0=a; name*2=c", "ac", {"parameter_section_missing"}),
        ("a/b; name*0=a; name*0=b", "a", {"parameter_repeated"}),
        ("a/b; name=a; name=b", "a", {"parameter_repeated"}),
        ("a/b; name*=utf-8''%FF", "ÿ", {"charset_invalid_bytes"}),
        ("a/b; name*=", "", set()),
        ("a/b; name*", None, set()),
    ],
)
def test_names_of_files(raw: str, value: str | None, flags: set[DefectKind]) -> None:
    """A name is decoded and never cleaned; the starred form wins (python/cpython#151857: nothing raises)."""
    found: set[DefectKind] = set()
    name, cut = parameters.file_name(field(raw), "name", found, 1_000)
    assert (None if name is None else name.value, cut) == (value, False)
    assert found == flags
    if name is not None:
        at = name.offset - 114
        assert raw[at : at + name.length] == name.raw


def test_sections_have_a_bound() -> None:
    """Thousands of sections are cut at the bound, which is told (Cocoanetics/SwiftMail#233)."""
    raw = "a/b; " + "; ".join(f"name*{number}=x" for number in range(4_000))
    name, cut = parameters.file_name(field(raw), "name", set(), 1_000)
    assert name is not None
    assert (len(name.value), cut) == (1_000, True)
