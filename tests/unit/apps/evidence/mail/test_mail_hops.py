"""Received fields: clauses outside of comments, dates, and whether the hops fit each other."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import analyse
from perenne.apps.evidence.mail.header_facts import Hop


def hops(*values: str) -> tuple[Hop, ...]:
    header = "".join(f"Received: {value}\r\n" for value in values)
    return analyse(f"{header}\r\n".encode()).messages[0].hops


def test_clauses_are_told_apart() -> None:
    """Each clause has its text; the date stands behind the last semicolon; hosts come in canonical form."""
    (hop,) = hops(
        "from mail.example (mx.mail.example [192.0.2.25])\r\n\t(using TLS with cipher x by y)"
        " by in.Example via TCP with ESMTPS id 4Xy for <a@b.example>; Tue, 04 Mar 2025 09:15:42 +0100 (CET)"
    )
    assert hop.from_ == "mail.example (mx.mail.example [192.0.2.25]) (using TLS with cipher x by y)"
    assert (hop.by, hop.via, hop.with_, hop.id, hop.for_) == ("in.Example", "TCP", "ESMTPS", "4Xy", "<a@b.example>")
    assert hop.date is not None
    assert hop.date.instant == "2025-03-04T08:15:42Z"
    assert hop.domains == ("mail.example", "mx.mail.example", "in.example")
    assert hop.ips == ("192.0.2.25",)


@pytest.mark.parametrize(
    ("value", "from_", "by", "checks"),
    [
        ("(qmail 24486 invoked by uid 501); 20 May 2000 01:55:02 -0000", None, None, ()),
        ("by x.example with HTTP; nonsense", None, "x.example", ("hop_date_absent",)),
        ("from a.example by b.example", "a.example", "b.example", ("hop_date_absent",)),
        ("from from by by", "from", "by", ("hop_date_absent",)),
        ("((((", None, None, ("hop_date_absent",)),
        ("", None, None, ("hop_date_absent",)),
    ],
)
def test_odd_hops_are_kept(value: str, from_: str | None, by: str | None, checks: tuple[str, ...]) -> None:
    """A word within a comment is no clause, a second one neither (SpamScope/mail-parser#71); the raw hop stays."""
    (hop,) = hops(value)
    assert (hop.from_, hop.by, hop.checks, hop.raw) == (from_, by, checks, value)


def test_addresses_of_version_six_are_canonical() -> None:
    """IPv6 addresses come out by RFC 5952, with and without their mark; leading zeros in IPv4 give none."""
    (hop,) = hops("from a ([IPv6:2001:DB8:0::1]) (2001:db8::2) (192.0.2.01) by b; x")
    assert hop.ips == ("2001:db8::1", "2001:db8::2")


def test_hops_are_compared() -> None:
    """Going back, a long gap and a time behind the delivery are told."""
    day = "from a.example by b.example; {} Mar 2025 {}:00:00 +0000"
    found = hops(day.format(4, 10), day.format(4, 12), day.format(4, 9), day.format(1, 9))
    assert [hop.delay_s for hop in found] == [-7200, 10_800, 259_200, None]
    assert [hop.checks for hop in found] == [("hop_goes_back",), ("hop_later_than_delivery",), ("hop_long_gap",), ()]
