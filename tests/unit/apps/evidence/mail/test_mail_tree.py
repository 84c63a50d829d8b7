"""Parts: paths, types, names, hashes, nested messages, and what stands where no part should."""

from __future__ import annotations

import base64
import hashlib

import pytest

from perenne.apps.evidence.mail import Analysis, Limits, analyse
from perenne.apps.evidence.mail.artefact import Message


def mail(*parts: bytes, kind: bytes = b"multipart/mixed", end: bytes = b"--b--\r\n") -> bytes:
    body = b"".join(b"--b\r\n" + part + b"\r\n" for part in parts)
    return b"Content-Type: " + kind + b"; boundary=b\r\n\r\n" + body + end


def first(data: bytes, limits: Limits | None = None) -> Message:
    return analyse(data, limits or Limits()).messages[0]


def kinds(found: Analysis) -> list[str]:
    return [defect.kind for defect in found.defects]


def test_a_mail_without_parts_has_the_part_one() -> None:
    """The whole body is part 1, text by default."""
    (part,) = first(b"Subject: x\r\n\r\nhello").parts
    assert (part.path, part.type, part.size_bytes, part.attachment) == ("1", "text/plain", 5, False)
    assert part.sha256 == hashlib.sha256(b"hello").hexdigest()


@pytest.mark.parametrize(
    ("header", "attachment", "name"),
    [
        (b"Content-Type: text/plain", False, None),
        (b"Content-Type: text/html", False, None),
        (b"Content-Type: text/plain; name=a.txt", True, "a.txt"),
        (b"Content-Type: text/plain\r\nContent-Disposition: attachment", True, None),
        (b"Content-Disposition: inline; filename=a.txt", True, "a.txt"),
        (b"Content-Disposition: ; filename=a.txt", True, "a.txt"),
        (b"Content-Type: image/png; name=a\r\nContent-Disposition: inline; filename=b", True, "b"),
        (b"Content-Type: text/x; name=a\r\nContent-Disposition: inline; filename=b; filename*=utf-8''c", True, "c"),
        (b"Content-Type: message/delivery-status", True, None),
        (b"Content-Disposition: =?utf-8?q?invalid?=", False, None),
    ],
)
def test_attachments(header: bytes, attachment: bool, name: str | None) -> None:
    """A disposition, a name or another type than text make an attachment; `filename*`, `filename`, `name` in order."""
    found = first(mail(b"\r\ntext", header + b"\r\n\r\nx"))
    part = found.parts[2]
    assert (part.path, part.attachment, None if part.name is None else part.name.value) == ("2", attachment, name)
    assert [one.path for one in found.attachments] == (["2"] if attachment else [])


def test_a_hash_is_that_of_exactly_the_decoded_bytes() -> None:
    """Nothing is trimmed and no line end is changed (SpamScope/mail-parser#70)."""
    content = b"a \r\n b\n\x00\r\n\r\n"
    header = b"Content-Type: application/x\r\n\r\n"
    coded = b"Content-Type: application/x\r\nContent-Transfer-Encoding: BASE64\r\n\r\n" + base64.encodebytes(content)
    digests = {one.sha256 for one in first(mail(header + content, coded)).attachments}
    assert digests == {hashlib.sha256(content).hexdigest()}


def test_an_unknown_coding_is_left_as_it_is() -> None:
    """What nobody knows how to undo is hashed as it stands, and told."""
    data = b"Content-Transfer-Encoding: x-gzip64\r\n\r\nH4sI"
    assert first(data).parts[0].sha256 == hashlib.sha256(b"H4sI").hexdigest()
    assert kinds(analyse(data)) == ["coding_unknown"]


def test_parts_of_a_digest_are_messages() -> None:
    """Without a type of its own a part of a digest is a message, entered once."""
    found = analyse(mail(b"\r\nSubject: in\r\n\r\nx", kind=b"multipart/digest"))
    assert [one.path for one in found.messages] == ["", "1.m"]
    assert found.messages[1].subject is not None
    assert found.messages[1].subject.value == "in"


def test_a_bounce_keeps_its_report_and_its_message() -> None:
    """A delivery status is one item, the returned message is entered once (nodemailer/mailparser#270)."""
    status = b"Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; a\r\n\r\nAction: failed\r\n"
    found = analyse(mail(b"\r\nsorry", status, b"Content-Type: message/rfc822\r\n\r\nSubject: back\r\n\r\nx"))
    assert [one.path for one in found.messages[0].attachments] == ["2", "3"]
    assert [one.path for one in found.messages] == ["", "3.m"]


def test_an_encoded_message_has_a_space_of_its_own() -> None:
    """Offsets of a message in base64 count in its decoded bytes, and its hash is theirs."""
    inner = b"Subject: in\r\n\r\nhttp://x.example/a"
    head = b"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    found = analyse(mail(head + base64.encodebytes(inner)))
    nested = found.messages[1]
    assert (nested.space, nested.offset, nested.length) == ("1", 0, len(inner))
    assert nested.sha256 == found.messages[0].attachments[0].sha256 == hashlib.sha256(inner).hexdigest()
    link = nested.links[0]
    assert inner[link.offset : link.offset + link.length] == b"http://x.example/a"


def test_a_multipart_without_parts_keeps_its_text() -> None:
    """A boundary that is missing or never stands loses nothing: the body is a text (MailCore/mailcore2#122)."""
    for header in (b"Content-Type: multipart/mixed", b"Content-Type: multipart/mixed; boundary=b"):
        found = analyse(header + b"\r\n\r\nsee http://x.example/a\r\n")
        assert [link.target for link in found.messages[0].links] == ["http://x.example/a"]
        assert kinds(found) in (["boundary_missing"], ["multipart_without_parts"])
        assert found.messages[0].attachments == ()


def test_a_repeated_type_is_told_and_the_first_counts() -> None:
    """Of two Content-Type fields the first one counts, and the second is a defect."""
    found = analyse(b"Content-Type: text/html\r\nContent-Type: image/png\r\n\r\nx")
    assert found.messages[0].parts[0].type == "text/html"
    assert kinds(found) == ["field_repeated"]


def test_what_stands_around_the_parts_has_its_place() -> None:
    """Preamble and epilogue are places; a boundary behind the close is a defect."""
    data = mail(b"\r\nx", end=b"--b--\r\nafter\r\n--b\r\nhidden").replace(b"\r\n\r\n--b", b"\r\n\r\nbefore\r\n--b", 1)
    found = analyse(data)
    root = found.messages[0].parts[0]
    assert root.preamble is not None
    assert root.epilogue is not None
    assert data[root.preamble.offset :][: root.preamble.length] == b"before"
    assert data[root.epilogue.offset :] == b"after\r\n--b\r\nhidden"
    assert "boundary_after_close" in kinds(found)


def test_depth_parts_and_messages_have_bounds() -> None:
    """Deep and wide mails are cut at their bounds; what lies before is there (rjbs/Email-MIME#66)."""
    deep = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(2_000))
    found = analyse(deep)
    assert [hit.name for hit in found.limits_hit] == ["depth"]
    assert len(found.messages[0].parts) == 65
    wide = analyse(mail(*[b"\r\nx"] * 50), Limits(parts=10))
    assert [hit.name for hit in wide.limits_hit] == ["parts"]
    assert len(wide.messages[0].parts) == 10
    chain = b"Content-Type: message/rfc822\r\n\r\n" * 100 + b"Subject: x\r\n\r\ny"
    nested = analyse(chain)
    assert [hit.name for hit in nested.limits_hit] == ["nested_messages"]
    assert len(nested.messages) == 17


def test_decoded_bytes_and_text_have_bounds() -> None:
    """Behind the bound a part has no hash, and a text is cut; both are told."""
    found = analyse(mail(b"\r\nabcdef", b"\r\nghi"), Limits(decoded_bytes=8))
    assert [part.sha256 is None for part in found.messages[0].parts] == [True, False, True]
    assert [hit.name for hit in found.limits_hit] == ["decoded_bytes"]
    cut = analyse(b"\r\nabcdef", Limits(text_bytes=3))
    assert cut.messages[0].bodies[0].text == "abc"
    assert [hit.name for hit in cut.limits_hit] == ["text_bytes"]
    assert analyse(b"Subject: x\r\n\r\nabc", Limits(file_bytes=12)).limits_hit[0].name == "file_bytes"
