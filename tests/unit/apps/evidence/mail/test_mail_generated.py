"""Mails made from a seed: the analyser finds what their maker knew, in each message and in those within it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import generated_mails
import mail_mutations
from generated_mails import Truth

from perenne.apps.evidence.mail import analyse
from perenne.apps.evidence.mail.artefact import Message

SEEDS, BATCH = 1_000, 250


def known(truth: Truth) -> dict[str, Any]:
    return {
        "path": truth.path,
        "subject": truth.subject,
        "people": truth.people,
        "instant": truth.instant,
        "message_id": truth.message_id,
        "hops": truth.hops,
        "attachments": [one.facts for one in truth.attachments],
        "bodies": [(path, text.splitlines()) for path, text in truth.bodies],
        "links": truth.links,
    }


def found(message: Message) -> dict[str, Any]:
    people = {"from": message.from_, "to": message.to, "cc": message.cc}
    attachments = [(one.path, one.type, one.name, one.size_bytes, one.sha256) for one in message.attachments]
    return {
        "path": message.path,
        "subject": message.subject.value if message.subject else None,
        "people": {name: [(one.name, one.address) for one in all_] for name, all_ in people.items()},
        "instant": message.date.instant if message.date else None,
        "message_id": message.message_id.value if message.message_id else None,
        "hops": [hop.date.instant if hop.date else None for hop in message.hops],
        "attachments": attachments,
        "bodies": [(one.path, one.text.splitlines()) for one in message.bodies],
        "links": {one.target for one in message.links},
    }


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_what_was_made_is_found(first: int) -> None:
    """Every fact of every message is the one its maker knew, at its place in the bytes, the same twice."""
    for seed in range(first, first + BATCH):
        made = generated_mails.mail(seed)
        messages = analyse(made.data).messages
        assert [found(one) for one in messages] == [known(one) for one in made.truths], seed
        assert list(mail_mutations.faults(made.data)) == [], seed


def test_the_maker_makes_all_it_can() -> None:
    """Among the mails are nested messages, absent instants, names of files and both line ends."""
    made = [generated_mails.mail(seed) for seed in range(100)]
    truths = [truth for one in made for truth in one.truths]
    assert any(truth.path.count("m") > 1 for truth in truths)
    assert {truth.instant is None for truth in truths} == {True, False}
    assert any(one.name and "привет" in one.name for truth in truths for one in truth.attachments)
    assert {one.eol for one in made} == {b"\r\n", b"\n"}
