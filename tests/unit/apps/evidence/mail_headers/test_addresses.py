"""Addresses, hosts and IP addresses found literally in a text."""

from __future__ import annotations

import time

import pytest

from perenne.apps.evidence.mail_headers import addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Alice <alice@example.test>, bob@example.test", ["alice@example.test", "bob@example.test"]),
        ('"Doe, J" <j.doe+tag@sub.example.test>', ["j.doe+tag@sub.example.test"]),
        ("'carol@example.test' <mailto:dave@example.test>", ["carol@example.test", "dave@example.test"]),
        ("end of a sentence: eve@example.test.", ["eve@example.test"]),
        ("SRS0=abc=XY=dom.test=user@fwd.test", ["SRS0=abc=XY=dom.test=user@fwd.test"]),
        ("a@x.test/b@y.test", ["a@x.test", "b@y.test"]),
        ("o'neil@example.test", ["o'neil@example.test"]),
        ("Mixed@Example.TEST", ["Mixed@Example.TEST"]),
        ("=?utf-8?Q?Zo=C3=A9?= <zoe@asso.example>", ["zoe@asso.example"]),
    ],
)
def test_addresses_are_found_as_they_stand(text: str, expected: list[str]) -> None:
    """Each address of a text is found once, in order, in its own spelling."""
    assert [found.raw for found in addresses.addresses_in(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "undisclosed-recipients:;",
        "moderator",
        "bob@localhost",
        "bob@192.0.2.1",
        "bob@[192.0.2.1]",
        "@example.test",
        "bob@",
        "bob@-bad.test",
        "bob@bad_host.test",
        "bob@example.1",
        "bob@example.t",
        "bob@example..test",
        "a@b.test@c.test",
        "jdöe@example.net",
        "jo\u0301e@example.net",
        "märy@exämple.net",
        "bob@example.net\u00e9",
        ".bob@example.test",
        f"{'a' * 400}@example.test",
        f"bob@{'a' * 64}.test",
        f"bob@{'a.' * 130}test",
    ],
)
def test_what_is_no_whole_address_is_left_out(text: str) -> None:
    """Nothing is reported rather than a part of an address, an address of a machine, or an illegal domain."""
    assert list(addresses.addresses_in(text)) == []


def test_domain_of_an_address_is_as_it_stands() -> None:
    """The domain keeps its spelling."""
    assert [found.domain for found in addresses.addresses_in("x@Example.TEST")] == ["Example.TEST"]


def test_hosts_are_found_but_not_those_of_addresses() -> None:
    """Names of machines are found in order and each time; names beside an `@`, versions and ids are not."""
    text = (
        "from mail.x.test (mail.x.test [192.0.2.1]) by mx.y.test (8.14.2/8.14.2) with ESMTP id 25si7.34.2009.10.30 "
        "helo=front.x.test for <first.last@y.test>; Wed, 16 Jan 2008 13:51:42 -0800"
    )
    assert list(addresses.hosts_in(text)) == ["mail.x.test", "mail.x.test", "mx.y.test", "front.x.test"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from a ([192.0.2.80]) by b (127.0.0.1)", ["192.0.2.80", "127.0.0.1"]),
        ("(user@192.0.2.9) helo=198.51.100.7:25", ["192.0.2.9", "198.51.100.7"]),
        ("127.0.01 1.2.3.4.5 300.1.1.1 192.0.2.080 id 1.2.3.4@x.test 1.2.3.4-x", []),
        ("::ffff:192.0.2.1", ["192.0.2.1"]),
    ],
)
def test_ipv4_addresses(text: str, expected: list[str]) -> None:
    """Whole dotted quads are found; parts of longer numbers and quads with leading zeros are not."""
    assert [found.canonical for found in addresses.ipv4_in(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[IPv6:2001:DB8:0:0::1]", [("2001:DB8:0:0::1", "2001:db8::1")]),
        ("(fe80::1%eth0) ipv6:2001:db8::2.", [("fe80::1", "fe80::1"), ("2001:db8::2", "2001:db8::2")]),
        ("::ffff:192.0.2.1", [("::ffff:192.0.2.1", "::ffff:192.0.2.1")]),
        ("2001:db8:0:0:0:0:0:a:", [("2001:db8:0:0:0:0:0:a", "2001:db8::a")]),
        ("13:51:42 00:11:22:33:44:55 Mail::Sender 1::2::3 ::" + "0" * 60, []),
    ],
)
def test_ipv6_addresses(text: str, expected: list[tuple[str, str]]) -> None:
    """IPv6 addresses come with their canonical form; times, hardware addresses and module names do not come."""
    assert [(found.raw, found.canonical) for found in addresses.ipv6_in(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<4471.ab12@news.shop.example>", "news.shop.example"),
        ("<e4b473$b3jkq@Xx.example>X-Next: header", "Xx.example"),
        ("plain@host.example", "host.example"),
        ("<a@b@host.example>", "host.example"),
        ("<no-domain@localhost>", None),
        ("<[x]@192.0.2.1>", None),
        ("nothing", None),
    ],
)
def test_domain_of_a_message_id(text: str, expected: str | None) -> None:
    """The domain of a message id is what follows its last `@`, when that is a domain."""
    assert addresses.domain_after_at(text) == expected


@pytest.mark.parametrize(("text", "legal"), [("a.test", True), ("1.0", False), ("a.b-2", True), ("test", False)])
def test_domain_rule(text: str, legal: bool) -> None:
    """A domain has a dot and a last label of two or more characters with a letter."""
    assert addresses.is_domain(text) is legal


def seconds_for(text: str) -> float:
    started = time.process_time()
    for read in (addresses.addresses_in, addresses.hosts_in, addresses.ipv4_in, addresses.ipv6_in):
        for _ in read(text):
            pass
    addresses.domain_after_at(text)
    return time.process_time() - started


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "@",
        "a@",
        "a.",
        "@a.",
        "a@b.",
        ".",
        "::",
        "1:",
        "1.2.3.4.",
        "=",
        "a@b.test'",
        "\u00e9",
        "a@b.test ",
        "-",
        "%",
    ],
)
def test_time_grows_with_the_text(unit: str) -> None:
    """Eight times the text takes nothing like the sixty-four times of a quadratic reader."""
    small, large = unit * (65_536 // len(unit)), unit * (524_288 // len(unit))
    baseline_s = max(min(seconds_for(small) for _ in range(3)), 0.002)
    assert seconds_for(large) < 32 * baseline_s
