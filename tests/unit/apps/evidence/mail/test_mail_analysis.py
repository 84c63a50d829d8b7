"""The analyser as a whole: facts with their places, nested messages, bounds; the single readers have tests beside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec
import pytest

from perenne.apps.evidence.mail import Analysis, Limits, analyse, encoded

INNER = b"From: b@two.example\r\nSubject: inner\r\n\r\nsee https://two.example/x."
MAIL = (
    b"From: Ann <ann@one.example>\r\nSubject: =?utf-8?Q?caf=C3=A9?=\r\n"
    b"Date: Tue, 04 Mar 2025 09:15:36 +0100\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello http://one.example/a\r\n"
    b"--b\r\nContent-Type: message/rfc822\r\n\r\n" + INNER + b"\r\n"
    b"--b\r\nContent-Type: image/png; name=p.png\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n--b--\r\n"
)


def raw_facts(value: object) -> Iterator[tuple[int, str]]:
    """Each raw text with its offset, wherever it stands in the artefact."""
    if isinstance(value, msgspec.Struct):
        raw = getattr(value, "raw", None)
        if isinstance(raw, str) and getattr(value, "exact", True):
            yield getattr(value, "value_offset", None) or value.offset, raw  # type: ignore[attr-defined]
        for name in value.__struct_fields__:
            yield from raw_facts(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from raw_facts(item)


def test_a_mail_gives_its_facts() -> None:
    """Subject, sender, date, parts, attachments and links are read, nested messages too."""
    found = analyse(MAIL)
    outer, inner = found.messages
    assert outer.subject is not None
    assert outer.subject.value == "café"
    assert [(one.name, one.address) for one in outer.from_] == [("Ann", "ann@one.example")]
    assert outer.date is not None
    assert outer.date.instant == "2025-03-04T08:15:36Z"
    assert [part.path for part in outer.parts] == ["", "1", "2", "3"]
    assert [(one.path, one.name) for one in outer.attachments] == [("2", None), ("3", "p.png")]
    assert [link.target for link in outer.links] == ["http://one.example/a"]
    assert [link.target for link in inner.links] == ["https://two.example/x"]
    assert (inner.path, inner.carrier, inner.parts[0].path) == ("2.m", "2", "2.m.1")
    assert outer.attachments[1].sha256 == hashlib.sha256(b"hello").hexdigest()


def test_a_nested_message_is_hashed_as_it_stands() -> None:
    """The hash of a nested message is that of its bytes in the file."""
    outer, inner = analyse(MAIL).messages
    assert outer.attachments[0].sha256 == inner.sha256 == hashlib.sha256(INNER).hexdigest()
    assert MAIL[inner.offset : inner.offset + inner.length] == INNER


def test_every_raw_text_lies_at_its_place() -> None:
    """Each raw text is, one character a byte, what the file holds at its offset."""
    facts = list(raw_facts(analyse(MAIL).messages))
    assert len(facts) > 20
    for offset, raw in facts:
        assert MAIL[offset : offset + len(raw)] == raw.encode("latin-1")


def test_at_zero_nested_messages_are_hashed_and_not_entered() -> None:
    """With no nesting allowed by choice, a nested message is one attachment, and no bound was hit."""
    found = analyse(MAIL, Limits(nested_messages=0))
    assert len(found.messages) == 1
    assert found.messages[0].attachments[0].sha256 == hashlib.sha256(INNER).hexdigest()
    assert found.limits_hit == ()


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\n", b"\r", b":", b"--", b"a:", MAIL[:200], MAIL.replace(b"\r\n", b"\r")]
)
def test_any_bytes_give_the_same_artefact_twice(data: bytes) -> None:
    """Nothing raises; two runs give the same bytes, and they read back as the same value."""
    first = encoded(analyse(data))
    assert first == encoded(analyse(data))
    assert msgspec.json.decode(first, type=Analysis) == analyse(data)
