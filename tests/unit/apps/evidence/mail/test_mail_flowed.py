"""Flowed texts, and where the links of a text lie in its bytes."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import analyse
from perenne.apps.evidence.mail.flowed import Flow, unflowed
from perenne.apps.evidence.mail.spots import Spots


@pytest.mark.parametrize(
    ("text", "flow", "shown"),
    [
        ("one \r\ntwo\r\n", "flowed", "one two\r\n"),
        ("one \ntwo\n", "delsp", "onetwo\n"),
        ("one \ntwo\n", "no", "one \ntwo\n"),
        (" stuffed\n  two\n", "flowed", "stuffed\n two\n"),
        (">quote\n", "flowed", ">quote\n"),
        ("> one \n> two\n>> other \nplain\n", "flowed", "> one two\n>> other \nplain\n"),
        ("hard\nend \n-- \nsign", "flowed", "hard\nend \n-- \nsign"),
        ("open ", "flowed", "open "),
        ("", "flowed", ""),
        ("\n\n", "flowed", "\n\n"),
    ],
)
def test_paragraphs_are_joined(text: str, flow: Flow, shown: str) -> None:
    """Soft line ends go within one depth of quoting, stuffing goes, a signature line stays (mikel/mail#493)."""
    assert unflowed(text, flow) == shown


def test_a_link_that_a_soft_line_end_cuts_is_whole() -> None:
    """With `delsp=yes` a link goes on in the next line; it has the place of its part, the others their own."""
    data = (
        b"Content-Type: text/plain; format=flowed; delsp=yes\r\n\r\n"
        b"http://a.example/long \r\nlink and\r\n http://b.example\r\n"
    )
    first, second = analyse(data).messages[0].links
    assert (first.target, first.exact) == ("http://a.example/longlink", False)
    assert second.target == "http://b.example"
    assert not second.exact or data[second.offset :].startswith(b"http://b.example")


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252", ""])
def test_links_lie_at_their_bytes_whatever_stands_before(charset: str) -> None:
    """Characters of several bytes and links out of order do not move a place."""
    head = f"Content-Type: text/html; charset={charset}\r\n\r\n"
    page = '<p>é€ <a href="http://a.example/é">see http://b.example/€</a> http://c.example/</p>'
    data = head.encode() + page.encode(charset or "utf-8")
    for link in analyse(data).messages[0].links:
        assert link.exact
        assert data[link.offset : link.offset + link.length] == link.raw.encode("latin-1")
    assert [link.target[:16] for link in analyse(data).messages[0].links] == [
        "http://b.example", "http://a.example", "http://c.example",
    ]  # fmt: skip


def test_a_place_that_cannot_be_said_is_none() -> None:
    """A mark in the text that is no NUL, and a codec with a state, give no place rather than a wrong one."""
    text = "␀ http://a.example"
    assert Spots(text.encode(), text, "utf-8", moved=False).of(2, "http://a.example") is None
    assert Spots(b"x", "x", "ascii", moved=True).of(0, "é") is None
