"""Addresses of a field (RFC 5322 section 3.4), each at its place."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import addresses
from perenne.apps.evidence.mail.header_facts import Field
from perenne.apps.evidence.mail.limits import Limits
from perenne.apps.evidence.mail.notes import Notes


def read(raw: str, most: int = 100) -> tuple[list[tuple[str, str]], Notes]:
    notes = Notes(Limits())
    field = Field("to", 1, raw, raw, "", 0, len(raw) + 4, 4)
    found = addresses.mailboxes_of(field, most, notes)
    for one in found:
        assert raw[one.offset - 4 : one.offset - 4 + one.length] == one.raw
    return [(one.name, one.address) for one in found], notes


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("a@b.example", [("", "a@b.example")]),
        ("Ann Lee <a@b.example>", [("Ann Lee", "a@b.example")]),
        ('"Lee, Ann" <a@b.example>', [("Lee, Ann", "a@b.example")]),
        ("a@b.example (Ann Lee)", [("Ann Lee", "a@b.example")]),
        ("a@b.example, c@d.example", [("", "a@b.example"), ("", "c@d.example")]),
        # A trailing comma loses nothing (pazz/alot#1408).
        ("a@b.example, , c@d.example,", [("", "a@b.example"), ("", "c@d.example")]),
        ("team: a@b.example, C <c@d.example>;", [("", "a@b.example"), ("C", "c@d.example")]),
        ("undisclosed-recipients:;", []),
        ("a@b.example; c@d.example", [("", "a@b.example"), ("", "c@d.example")]),
        ('"john doe"@b.example', [("", '"john doe"@b.example')]),
        ("<@x.example,@y.example:a@b.example>", [("", "a@b.example")]),
        ("=?utf-8?q?Zo=C3=A9?= <z@b.example>", [("Zoé", "z@b.example")]),
        ('"=?utf-8?q?Zo=C3=A9?=" <z@b.example>', [("Zoé", "z@b.example")]),
        ("j . doe @ b.example", [("", "j.doe@b.example")]),
        ("Name a@b.example", [("Name", "a@b.example")]),
        ("<a@b.example", [("", "a@b.example")]),
        ("(only a comment)", [("only a comment", "")]),
        ("Two Words", [("Two Words", "")]),
        ("word", [("", "word")]),
        ("<>", [("", "")]),
        ('"open', [("", '"open')]),
        ("a@[IPv6:2001:db8::1]", [("", "a@[IPv6:2001:db8::1]")]),
        ('"J\xc3\xb6hn" <jd\xc3\xb6e@b.example>', [("Jöhn", "jdöe@b.example")]),
        ("", []),
    ],
)
def test_mailboxes(raw: str, found: list[tuple[str, str]]) -> None:
    """Names and addresses come out as written, whatever form they have; nothing raises (python/cpython#151857)."""
    assert read(raw)[0] == found


@pytest.mark.parametrize(
    ("raw", "kind"),
    [("<a@b.example, c@d.example", "address_unclosed"), ("(c)", "address_empty"), ("word", "address_without_domain")],
)
def test_what_is_odd_is_told(raw: str, kind: str) -> None:
    """A defect names what an address lacks."""
    assert kind in [defect.kind for defect in read(raw)[1].defects]


def test_addresses_have_a_bound() -> None:
    """No more addresses than the bound are read, and the bound is told."""
    found, notes = read(", ".join(["a@b.example"] * 20), most=5)
    assert len(found) == 5
    assert [hit.name for hit in notes.hits] == ["addresses"]
