"""Links in texts and in HTML, and where they lead."""

from __future__ import annotations

import time

import pytest

from perenne.apps.evidence.mail import Limits, analyse, html, links


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see <https://a.example/a_(b)?q=1>, and", ["https://a.example/a_(b)?q=1"]),
        ("(http://a.example/x).", ["http://a.example/x"]),
        ("ftp://a.example/pub/é (or not)", ["ftp://a.example/pub/é"]),
        ("HTTP://A.example!", ["HTTP://A.example"]),
        ("http://a.example/[x]] http://b.example", ["http://a.example/[x]", "http://b.example"]),
        ("« http://a.example/b »", ["http://a.example/b"]),
        ("http:// and www.a.example and mailto:a@b.example and xhttp://no.example", []),
        ("http://...", []),
    ],
)
def test_links_of_a_text(text: str, found: list[str]) -> None:
    """A scheme begins a link, white space and angle brackets end it, trailing punctuation is none of it."""
    assert [one.target for one in links.links_in(text)] == found


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ('<a href="http://a.example/?x=1&amp;y=2">z</a>', [("href", "http://a.example/?x=1&y=2")]),
        ("<A HREF=http://a.example/x>z", [("href", "http://a.example/x")]),
        ("<img src='http://a.example/\r\n o.gif'>", [("src", "http://a.example/o.gif")]),
        (
            '<form action="https://a.example"><body background="http://b.example">',
            [("action", "https://a.example"), ("background", "http://b.example")],
        ),
        ("<p>go to http://a.example/x, now", [("visible", "http://a.example/x")]),
        ("<p>http://a.example/?a=1&amp;b=2&lt;x", [("visible", "http://a.example/?a=1&b=2")]),
        ("<!-- http://a.example --><script>'http://b.example'</script><style>u{http://c.example}</style>", []),
        ('<a href="cid:x"><a href="/local"><img src="data:x">', []),
        ('<a href="http://a.example/?a&copy=1&#x41;">', [("href", "http://a.example/?a&copy=1A")]),
        ('<a title="a>b" href="http://a.example">', [("href", "http://a.example")]),
        ('<a href="http://a.example', [("href", "http://a.example")]),
        ("< a href='http://a.example'>", [("visible", "http://a.example")]),
        ("&#99999999999999999999; &#0; &#xD800; &nosuch; http://a.example", [("visible", "http://a.example")]),
    ],
)
def test_links_of_a_page(page: str, found: list[tuple[str, str]]) -> None:
    """Attributes and visible text give links, entities are characters; comments, scripts and styles are silent."""
    assert [(one.place, one.target) for one in html.links_of(page)] == found


def test_a_link_that_shows_another_host_is_found() -> None:
    """What an `<a>` shows stands beside its target, and another host in it is a mismatch and a finding."""
    page = (
        b"Content-Type: text/html\r\n\r\n"
        b'<a href="http://evil.example/x">www.<b>bank.example</b>/login</a><a href="http://good.example">click here</a>'
        b'<a href="https://same.example/y">https://same.example</a>'
    )
    (message,) = analyse(page).messages
    shown = [(one.host, one.shown, one.mismatch) for one in message.links if one.place == "href"]
    assert shown == [
        ("evil.example", "www.bank.example/login", True),
        ("good.example", "click here", False),
        ("same.example", "https://same.example", False),
    ]
    assert [one.kind for one in message.findings] == ["link_shows_other_host"]


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("http://User:pw@A.Example.:80/x", "a.example"),
        ("http://a.example\\@evil.example/", "a.example"),
        ("http://[2001:DB8::1]:80/", "2001:db8::1"),
        ("http://", ""),
    ],
)
def test_the_host_of_a_link(target: str, host: str) -> None:
    """User, port and case are no part of the host."""
    assert links.host_of(target) == host


def test_a_link_in_an_encoded_text_has_the_place_of_its_part() -> None:
    """Where the text was decoded a link has the place of its part, and says so."""
    plain, coded = b"x http://a.example", b"x http://a.example/=C3=A9"
    found = analyse(b"\r\n" + plain).messages[0].links[0]
    assert (found.exact, found.offset, found.length) == (True, 4, 16)
    odd = analyse(b"Content-Type: text/plain; charset=windows-1252\r\n\r\nhttp://a.example/\x80\0").messages[0].links[0]
    assert (odd.exact, odd.raw, odd.target) == (True, "http://a.example/\x80\0", "http://a.example/€␀")
    head = b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
    found = analyse(head + coded).messages[0].links[0]
    assert (found.exact, found.offset, found.length) == (False, len(head), len(coded))
    assert (found.text_offset, found.raw) == (2, "http://a.example/é")


def test_links_have_bounds() -> None:
    """Their number and their length are cut at the bounds, which are told."""
    found = analyse(b"\r\n" + b"http://a.example/ " * 20, Limits(links=7, link_bytes=10))
    assert len(found.messages[0].links) == 7
    assert {hit.name for hit in found.limits_hit} == {"links", "link_bytes"}
    assert {link.target for link in found.messages[0].links} == {"http://a.e"}


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<a href='", '<a href="', "<!--", "&#", "http://", "<script>", "a@", "(((", 'x="']
)
def test_time_is_linear(piece: str) -> None:
    """What has no end takes no more time for that (GOVCERT-LU/eml_parser#48)."""
    page = f"Content-Type: text/html\r\nX: {piece * 100}\r\n\r\n{piece * 200_000}".encode()
    began_s = time.process_time()
    analyse(page)
    assert time.process_time() - began_s < 2
