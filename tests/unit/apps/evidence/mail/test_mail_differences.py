"""The analyser against the standard library, on two thousand generated mails: each difference is explained by a rule.

What is explained is told with the bytes it is about (`library_facts`); what is not explained fails.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import generated_mails
import library_facts

from perenne.apps.evidence.mail import analyse
from perenne.apps.evidence.mail.artefact import Message

SEEDS, BATCH = range(10_000, 12_000), 500


def told(message: Message) -> dict[str, Any]:
    people = {"from": message.from_, "to": message.to, "cc": message.cc}
    return {
        "subject": message.subject.value if message.subject else None,
        "message-id": message.message_id.value if message.message_id else None,
        "date": message.date.instant if message.date else None,
        "attachments": [(one.type, one.name, one.sha256) for one in message.attachments],
        **{name: [(one.name, one.address) for one in all_] for name, all_ in people.items()},
    }


def in_evidence(data: bytes, message: Message) -> bool:
    """Whether each nested message that is not encoded has the hash of the bytes at its place."""
    return all(
        hashlib.sha256(data[one.offset : one.offset + one.length]).hexdigest() == one.sha256
        for one in message.parts
        if one.message is not None and one.coding == "identity"
    )


@pytest.mark.parametrize("first", SEEDS[::BATCH])
def test_each_difference_is_explained(first: int, record_property: Any) -> None:
    """A difference names its rule and the place of its bytes; both policies of the library are asked."""
    explained: Counter[str] = Counter()
    unexplained = []
    for seed in range(first, first + BATCH):
        data = generated_mails.mail(seed).data
        message = analyse(data).messages[0]
        assert in_evidence(data, message), seed
        ours = told(message)
        for policy in library_facts.POLICIES:
            theirs = library_facts.read(data, policy)
            for fact in library_facts.FACTS:
                if ours[fact] == theirs[fact]:
                    continue
                reason = library_facts.why(data, fact, ours[fact], theirs[fact])
                if reason is None:
                    unexplained.append((seed, type(policy).__name__, fact, ours[fact], theirs[fact]))
                else:
                    explained[reason.split(", bytes")[0]] += 1
    record_property("explained", dict(explained))
    assert unexplained == []
    assert len(explained) >= 5


@pytest.mark.parametrize(
    ("fact", "ours", "theirs"),
    [
        ("subject", "hello", "help"),
        ("date", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"),
        ("from", [("A", "a@b.example")], [("A", "a@c.example")]),
        ("attachments", [("image/png", None, "1")], [("image/png", None, library_facts.Digest.of(b"2"))]),
        ("attachments", [("image/png", None, "1")], []),
    ],
)
def test_a_wrong_fact_is_not_explained_away(fact: str, ours: Any, theirs: Any) -> None:
    """A difference that no rule asks for has no explanation."""
    data = b"Subject: hello\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nFrom: A <a@b.example>\n\nx"
    assert library_facts.why(data, fact, ours, theirs) is None
