"""What receivers recorded, how far it may be trusted, and the signatures that stand in a mail."""

from __future__ import annotations

from perenne.apps.evidence.mail import analyse
from perenne.apps.evidence.mail.artefact import Message

HEADER = (
    b"Authentication-Results: mx.one.example 1; dkim=pass (good; really) header.d=a.example;\r\n"
    b' spf=fail reason="not; allowed" smtp.mailfrom=x@a.example\r\n'
    b"Authentication-Results: mx.one.example; dmarc=pass\r\n"
    b"Authentication-Results: forged.example; dkim=pass\r\n"
    b"Authentication-Results: mx.one.example; dmarc=fail\r\n"
    b"ARC-Seal: i=1; a=rsa-sha256; d=arc.example; s=k; cv=none;\r\n b=Zm9v\r\n YmFy\r\n"
    b"ARC-Authentication-Results: i=1; arc.example; spf=softfail\r\n"
    b"DKIM-Signature: v=1; d=a.example; s=sel; i=@a.example; b=x\r\n"
    b"Received-SPF: neutral (q: w) client-ip=192.0.2.1; receiver=mx.one.example;\r\n\r\n"
)


def message(*, trusted: tuple[str, ...] = (), header: bytes = HEADER) -> Message:
    return analyse(header, trusted=trusted).messages[0]


def test_results_are_read_with_their_properties() -> None:
    """Method, result and properties come out; comments and quoted semicolons end nothing."""
    first, second, *_ = message().authentication
    assert (first.server, first.method, first.result) == ("mx.one.example", "dkim", "pass")
    assert first.properties == (("header.d", "a.example"),)
    assert second.properties == (("reason", "not; allowed"), ("smtp.mailfrom", "x@a.example"))
    assert HEADER[second.offset :].startswith(b'spf=fail reason="not; allowed"')


def test_only_the_topmost_block_counts() -> None:
    """Below another server's block the same name is a claim: anybody may have written it."""
    trust = [(one.server, one.method, one.trust) for one in message().authentication[:5]]
    assert trust == [
        ("mx.one.example", "dkim", "topmost"),
        ("mx.one.example", "spf", "topmost"),
        ("mx.one.example", "dmarc", "topmost"),
        ("forged.example", "dkim", "claim"),
        ("mx.one.example", "dmarc", "claim"),
    ]
    assert [one.trust for one in message(trusted=("MX.one.example",)).authentication[:5]] == [
        *["receiver"] * 3,
        *["claim"] * 2,
    ]
    assert {one.trust for one in message(trusted=("other.example",)).authentication} == {"claim"}


def test_arc_and_spf_are_claims() -> None:
    """What forwarders sealed and what Received-SPF says is shown as a claim."""
    arc, spf = message().authentication[-2:]
    assert (arc.header, arc.instance, arc.server, arc.result) == (
        "arc-authentication-results",
        1,
        "arc.example",
        "softfail",
    )
    assert (spf.method, spf.result, spf.server, spf.trust) == ("spf", "neutral", "mx.one.example", "claim")


def test_signatures_are_shown_unverified() -> None:
    """Domain, selector, instance and chain state come out, folding within a value does not."""
    dkim, seal = message().signatures
    assert (dkim.header, dkim.domain, dkim.selector, dkim.instance) == ("dkim-signature", "a.example", "sel", None)
    assert (seal.instance, seal.domain, seal.chain, dict(seal.tags)["b"]) == (1, "arc.example", "none", "Zm9vYmFy")


def test_failed_results_are_findings() -> None:
    """A recorded no is a finding that says how far it is trusted."""
    details = [one.detail for one in message().findings if one.kind == "authentication_failed"]
    assert details[0] == "spf=fail by mx.one.example (topmost)"
    assert len(details) == 3


def test_broken_results_cost_only_themselves() -> None:
    """Empty, unclosed and nameless fields give what they hold."""
    odd = b'Authentication-Results:\r\nAuthentication-Results: spf=pass "open\r\nDKIM-Signature: ;;=;x\r\n\r\n'
    assert [(one.server, one.method) for one in message(header=odd).authentication] == [("", "spf")]
    assert message(header=odd).signatures[0].domain == ""
