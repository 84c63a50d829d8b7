"""What a person should look at, the proposals, and the one place that catches faults of ours."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import analyse, message
from perenne.apps.evidence.mail.hosts import aligned


@pytest.mark.parametrize(
    ("header", "kinds"),
    [
        ("From: a@one.example\nReturn-Path: <b@news.one.example>", []),
        ("From: a@one.example\nReturn-Path: <b@two.test>", ["return_path_differs"]),
        ("From: a@one.example\nReply-To: c@three.test", ["reply_to_differs"]),
        ("From: a@one.example\nSender: c@three.test", ["sender_differs"]),
        ("From: a@one.example\nFrom: b@one.example", ["field_repeated"]),
        ("Subject: x\nSubject: y\nSubject: z", ["field_repeated"]),
        ('From: "boss@bank.example" <x@evil.test>', ["display_name_is_address"]),
        ("From: =?utf-8?q?boss=40bank.example?= <x@evil.test>", ["display_name_is_address"]),
        ("From: x@evil.test (x@evil.test)", []),
        ("Received: by a.example; 4 Mar 2025 08:00:00 +0000\nDate: 4 Mar 2025 09:00:00 +0000", ["date_after_delivery"]),
        ('Content-Type: a/b; name="x\u202egnp.exe"', ["file_name_hides"]),
        ("Content-Type: a/b; name=../../etc/x", ["file_name_hides"]),
        ("Content-Type: application/ms-tnef; name=winmail.dat", ["container_not_opened"]),
        ("Content-Type: message/partial; id=1; number=1", ["message_in_pieces"]),
    ],
)
def test_findings(header: str, kinds: list[str]) -> None:
    """What does not fit is named, what fits is not."""
    found = analyse(f"{header}\n\nx".encode()).messages[0].findings
    assert [one.kind for one in found] == kinds


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a.example", "A.example", True),
        ("x.a.example", "y.a.example", True),
        ("a.co.uk", "b.co.uk", False),
        ("x.a.co.uk", "a.co.uk", True),
        ("a.example", "a.test", False),
    ],
)
def test_domains_of_one_organisation(one: str, other: str, same: bool) -> None:
    """Domains below one registered name belong together."""
    assert aligned(one, other) is same


def test_proposals_are_numbered_and_lie_at_their_places() -> None:
    """Addresses, domains and IP addresses are proposed once an occurrence; each raw text lies at its place."""
    data = (
        b"Received: from m.one.example ([192.0.2.7]) by m.one.example; x\nFrom: A <a@One.example>\nTo: a@one.example\n"
        b"Message-ID: <1@id.example>\n\nhttp://one.example/x http://192.0.2.9/"
    )
    found = analyse(data).messages[0].observations
    keys = [(one.type, one.value, one.role, one.header, one.occurrence) for one in found]
    assert len(set(keys)) == len(keys)
    assert ("domain_name", "m.one.example", "smtp_relay", "received", 2) in keys
    assert ("ip_address", "192.0.2.9", "link", "body", 1) in keys
    assert ("domain_name", "id.example", "message_id_domain", "message-id", 1) in keys
    for one in found:
        assert one.exact
        assert data[one.offset : one.offset + one.length] == one.raw.encode()


def test_a_fault_of_ours_costs_only_its_own_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that fails is a defect of its own kind, and every other fact is there."""

    def broken(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(message, "hops_of", broken)
    found = analyse(b"Subject: x\nReceived: by a.example; y\n\nhttp://b.example")
    assert [one.kind for one in found.defects] == ["internal_error"]
    assert found.messages[0].subject is not None
    assert [one.target for one in found.messages[0].links] == ["http://b.example"]
    assert found.messages[0].hops == ()
