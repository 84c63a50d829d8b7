"""The mail analyser: its golden mail, its order and numbers, its bounds, and its behaviour on damaged mails."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from perenne.apps.evidence.findings import Observation
from perenne.apps.evidence.mail_headers.analyser import MAX_OBSERVATIONS, analyse
from perenne.apps.evidence.mail_headers.header_block import fields_of, header_block
from perenne.apps.evidence.mail_headers.specimen import specimen_mail
from perenne.errors import EngineError, TooLarge

EXAMPLES = Path(__file__).parents[5] / "examples" / "evidence"
MUTATIONS = 2_000

# Their addresses do not stand in the header as ASCII addr-specs, so the reference contract does not report them.
NOT_LITERAL = {
    "dovecot-007.eml": "From names `moderator`, a mailbox without a domain",
    "rmail-utf8_headers.eml": "its addresses have letters outside ASCII on both sides of the @",
}


def short(observations: tuple[Observation, ...]) -> list[tuple[str, str, str, int]]:
    return [(found.type, found.value_normalized, found.role, found.occurrence) for found in observations]


def test_golden_mail_gives_its_eight_observations() -> None:
    """The specimen mail gives exactly the eight observations of the reference, in their order (L:A-7)."""
    assert short(analyse(specimen_mail())) == [
        ("email_address", "alice@example.test", "from", 1),
        ("domain_name", "example.test", "from", 1),
        ("email_address", "bob@example.test", "to", 1),
        ("domain_name", "example.test", "to", 1),
        ("domain_name", "example.test", "message_id_domain", 1),
        ("ip_address", "192.0.2.80", "smtp_relay", 1),
        ("domain_name", "relay.example.test", "smtp_relay", 1),
        ("domain_name", "mx.example.test", "smtp_relay", 1),
    ]


def test_nothing_of_the_body_is_reported() -> None:
    """An address in the body of the specimen is in no observation."""
    assert b"body-only@example.test" in specimen_mail()
    assert not [found for found in analyse(specimen_mail()) if "body-only" in found.value_raw]


def test_fields_of_an_observation() -> None:
    """Raw value, normalised value, header in lower case and provenance stand beside each other (L:A-4)."""
    first, second = analyse(b"Reply-To: Bob.Smith@Example.TEST\n\n")
    assert first == Observation(
        "email_address", "Bob.Smith@Example.TEST", "bob.smith@example.test", "reply_to", "reply-to", 1, "header"
    )
    assert (second.value_raw, second.value_normalized) == ("Example.TEST", "example.test")


def test_order_of_roles() -> None:
    """Roles come in the fixed order of the contract, whatever the order of the headers."""
    headers = ["Bcc", "Cc", "To", "Return-Path", "Reply-To", "Sender", "From"]
    content = "".join(f"{name}: {name.lower()}@{name.lower()}.test\n" for name in headers) + "\n"
    assert [found.role for found in analyse(content.encode())][::2] == [
        "from",
        "sender",
        "reply_to",
        "return_path",
        "to",
        "cc",
        "bcc",
    ]


def test_addresses_are_numbered_through_all_headers_of_a_name() -> None:
    """The occurrence is the running number of the address within its header name; its domain has the same."""
    found = short(analyse(b"To: a@x.test, b@x.test\nCc: d@x.test\nTo: a@x.test\n\n"))
    assert [(value, number) for type_, value, role, number in found if role == "to"] == [
        ("a@x.test", 1),
        ("x.test", 1),
        ("b@x.test", 2),
        ("x.test", 2),
        ("a@x.test", 3),
        ("x.test", 3),
    ]
    assert ("email_address", "d@x.test", "cc", 1) in found


def test_only_the_first_message_id_counts() -> None:
    """A second Message-ID adds nothing, and a first one without a domain is not replaced by the second."""
    assert short(analyse(b"Message-ID: <1@a.test>\nMessage-ID: <2@b.test>\n\n")) == [
        ("domain_name", "a.test", "message_id_domain", 1)
    ]
    assert analyse(b"Message-ID: <1>\nMessage-ID: <2@b.test>\n\n") == ()


def test_host_repeated_in_one_hop_is_numbered() -> None:
    """A host that stands twice in one Received header gets two numbers, and a later hop takes the next (L:T-17)."""
    hop = b"Received: from mail.x.test (mail.x.test [192.0.2.1]) by mx.x.test\n"
    assert short(analyse(hop + hop + b"\n")) == [
        ("ip_address", "192.0.2.1", "smtp_relay", 1),
        ("domain_name", "mail.x.test", "smtp_relay", 1),
        ("domain_name", "mail.x.test", "smtp_relay", 2),
        ("domain_name", "mx.x.test", "smtp_relay", 1),
        ("ip_address", "192.0.2.1", "smtp_relay", 2),
        ("domain_name", "mail.x.test", "smtp_relay", 3),
        ("domain_name", "mail.x.test", "smtp_relay", 4),
        ("domain_name", "mx.x.test", "smtp_relay", 2),
    ]


def test_a_value_first_seen_in_a_later_hop_carries_the_number_of_that_hop() -> None:
    """A value that did not occur before has the index of its Received header."""
    found = short(analyse(b"Received: by a.x.test\nReceived: by b.x.test\nReceived: by B.X.TEST\n\n"))
    assert [(value, number) for _, value, _, number in found] == [("a.x.test", 1), ("b.x.test", 2), ("b.x.test", 3)]


def test_ipv6_comes_after_all_hops() -> None:
    """IPv6 addresses of all Received headers follow the other values of all of them."""
    found = short(analyse(b"Received: from a.x.test ([IPv6:2001:db8::1])\nReceived: by b.x.test ([192.0.2.1])\n\n"))
    assert [value for _, value, _, _ in found] == ["a.x.test", "192.0.2.1", "b.x.test", "2001:db8::1"]


def test_a_mail_that_names_nobody_is_a_valid_result() -> None:
    """A header without any address gives an empty result, not an error (L:L-4)."""
    assert analyse(b"Subject: hello\n\n") == ()


def test_bound_on_observations_is_exact() -> None:
    """256 observations are a result; 258 are refused with the limit in the sentence."""
    content = ", ".join(f"u{number}@x.test" for number in range(MAX_OBSERVATIONS // 2))
    assert len(analyse(f"To: {content}\n\n".encode())) == MAX_OBSERVATIONS
    with pytest.raises(TooLarge, match="256"):
        analyse(f"To: {content}, one@too.many.test\n\n".encode())


@pytest.mark.parametrize(
    "line",
    [
        b"To: " + b"u@x.test," * 100_000,
        b"Received: from a.x.test " + b"(a.x.test) " * 100_000,
        b"Received: by a.x.test\n" * 90_000,
        b"Received: " + b"[IPv6:2001:db8::1] " * 100_000,
        b"Received: " + b"192.0.2.1 " * 100_000,
        b"To:\n" + b" u@x.test,\n" * 100_000,
    ],
    ids=["addresses", "hosts", "hops", "ipv6", "ipv4", "folds"],
)
def test_hostile_header_ends_in_a_refusal(line: bytes) -> None:
    """A header of up to 2 MiB full of values is refused as too large instead of being worked off."""
    with pytest.raises(TooLarge):
        analyse(line + b"\n\nbody")


def test_hostile_header_without_a_value_ends_empty() -> None:
    """Two mebibytes of almost-addresses are read to their end and give nothing."""
    assert analyse(b"To: " + b"u@x.t@" * 340_000 + b"\n\n") == ()


def is_literal(address: str, header: str) -> bool:
    return address.isascii() and "@" in address and address.lower() in header.lower()


def disagreements(mail: Path, facts: dict[str, Any]) -> list[str]:
    """What the analyser and the facts say differently about the From, To and Cc of one mail."""
    content = mail.read_bytes()
    header = "\n".join(field.value for field in fields_of(header_block(content)))
    found = analyse(content)
    differences = []
    for role in ("from", "to", "cc"):
        expected = [entry["addr"] for entry in facts[role]]
        if not all(is_literal(address, header) for address in expected):
            differences.append(f"{mail.name}: {role} is not literal")
            continue
        ours = [o.value_normalized for o in found if o.role == role and o.type == "email_address"]
        if ours != [address.lower() for address in expected]:
            differences.append(f"{mail.name}: {role} is {expected} in the facts, {ours} here")
    return differences


def facts_of(folder: Path) -> dict[Path, dict[str, Any]]:
    mails = sorted((folder / "eml").glob("*.eml"))
    return {mail: json.loads((folder / "facts" / f"{mail.stem}.json").read_text("utf-8")) for mail in mails}


def test_own_mails_agree_with_their_facts() -> None:
    """From, To and Cc of each mail in examples are the ones it was written with."""
    facts = facts_of(EXAMPLES)
    assert len(facts) == 6
    assert [line for mail, fact in facts.items() for line in disagreements(mail, fact)] == []


def test_shared_mails_agree_with_their_facts(shared_data: Path) -> None:
    """From, To and Cc of every collected mail are those of its facts; the two exceptions are named with reasons."""
    facts = facts_of(shared_data / "evidence")
    assert len(facts) >= 32
    found = {mail.name: lines for mail, fact in facts.items() if (lines := disagreements(mail, fact))}
    assert found.keys() == NOT_LITERAL.keys()
    assert all("not literal" in line for lines in found.values() for line in lines)


def test_no_cut_address_where_it_is_not_literal(shared_data: Path) -> None:
    """In the two exceptions nothing is reported, rather than a part of an address."""
    for name in NOT_LITERAL:
        assert analyse((shared_data / "evidence" / "eml" / name).read_bytes()) == ()


def mutated(content: bytes, luck: random.Random) -> bytes:
    """One of: bytes flipped, a stretch cut, doubled or moved, line ends changed, an odd byte strewn in."""
    changed = bytearray(content)
    for _ in range(luck.randint(1, 8)):
        start = luck.randrange(len(changed) + 1)
        end = min(len(changed), start + luck.randint(0, 40))
        match luck.randrange(6):
            case 0:
                changed[start:end] = luck.randbytes(end - start)
            case 1:
                del changed[start:end]
            case 2:
                changed[start:start] = changed[start:end] * luck.randint(1, 30)
            case 3:
                changed = bytearray(bytes(changed).replace(b"\r\n", luck.choice([b"\n", b"\r", b"\n\r\n", b"\r\n "])))
            case 4:
                changed[start:start] = luck.choice([b"\0", b"@", b":", b"\xff", b"<", b"\n\n", b"::", b".", b"[IPv6:"])
            case _:
                changed = bytearray(bytes(changed).swapcase())
    return bytes(changed)


def test_mutated_mails_never_break_the_analyser() -> None:
    """2,000 damaged mails give observations with unique keys, or an error of our own; twice the same."""
    luck = random.Random(20_260_926)
    originals = [specimen_mail(), *(path.read_bytes() for path in sorted((EXAMPLES / "eml").glob("*.eml")))]
    analysed = 0
    for _ in range(MUTATIONS):
        content = mutated(luck.choice(originals), luck)
        try:
            found = analyse(content)
        except EngineError:
            continue
        analysed += 1
        assert found == analyse(content)
        keys = {(o.type, o.value_normalized, o.role, o.source_header, o.occurrence) for o in found}
        assert len(keys) == len(found)
        assert all(o.value_raw.isascii() and o.value_raw.isprintable() and o.occurrence > 0 for o in found)
    assert analysed > MUTATIONS // 2
