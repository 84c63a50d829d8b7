"""What `evidence.mail@1` publishes: the document of one message, its nested requests, reading it back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from perenne.apps.evidence import whole_mail
from perenne.apps.evidence.findings import Source
from perenne.apps.evidence.requests import Step, WholeMailInput
from perenne.errors import InvalidInput, RecoveryRequired

SAMPLE = (Path(__file__).parents[4] / "examples/evidence/eml/own-05-nested-three.eml").read_bytes()
EVIDENCE = "82000000-0000-4000-8000-000000000001"
REQUEST = "82000000-0000-4000-8000-000000000012"
SOURCE = Source(EVIDENCE, hashlib.sha256(SAMPLE).hexdigest(), len(SAMPLE))
GIVEN = WholeMailInput(EVIDENCE, SOURCE.sha256, SOURCE.size_bytes)
IDENTITY = {"request_id": REQUEST, "source": SOURCE, "requested_at": "2026-09-26T21:00:00Z", "steps": ()}


def test_the_same_mail_gives_the_same_bytes() -> None:
    """Two analyses under one identity give one artefact, and its check gives the same observations."""
    derivatives = [whole_mail.build(**IDENTITY, analysis=whole_mail.read(SAMPLE, GIVEN)) for _ in range(2)]  # type: ignore[arg-type]
    assert derivatives[0] == derivatives[1]
    assert whole_mail.check(derivatives[0].content, **IDENTITY) == derivatives[0].observations  # type: ignore[arg-type]
    assert {one.value_normalized for one in derivatives[0].observations} >= {"a@un.example", "un.example"}


def test_nested_messages_are_reached_step_by_step() -> None:
    """Each step leads to the very bytes of the message within; what is within that has a step of its own."""
    first = whole_mail.nested_in(whole_mail.read(SAMPLE, GIVEN), REQUEST, 0)
    assert [one.step.path for one in first] == ["2"]
    inner = msgspec.structs.replace(GIVEN, steps=(first[0].step,))
    second = whole_mail.nested_in(whole_mail.read(SAMPLE, inner), first[0].request_id, 1)
    assert [one.step.path for one in second] == ["1"]
    innermost = whole_mail.message_of(SAMPLE, (first[0].step, second[0].step))
    assert innermost.startswith(b"From: c@trois.example\r\n")
    assert whole_mail.nested_in(whole_mail.read(SAMPLE, GIVEN), REQUEST, whole_mail.NESTED_MOST) == ()


def test_a_step_to_other_bytes_is_refused() -> None:
    """A step whose bytes have another hash is refused, naming its part."""
    step = Step("2", 0, 10, "identity", "0" * 64)
    with pytest.raises(InvalidInput, match="part 2 gives bytes"):
        whole_mail.message_of(SAMPLE, (step,))


@pytest.mark.parametrize("change", [b"", b"{}", b"request", b"space"])
def test_an_artefact_that_is_not_as_published_is_in_doubt(change: bytes) -> None:
    """Damage, another request and other white space are found."""
    content = whole_mail.build(**IDENTITY, analysis=whole_mail.read(SAMPLE, GIVEN)).content  # type: ignore[arg-type]
    changed = {b"request": content.replace(REQUEST.encode(), EVIDENCE.encode()), b"space": content + b" "}
    with pytest.raises(RecoveryRequired):
        whole_mail.check(changed.get(change, change), **IDENTITY)  # type: ignore[arg-type]


def test_what_says_too_much_is_published_within_narrow_bounds() -> None:
    """A mail whose artefact would be too large is read within smaller bounds, and the artefact says which were hit."""
    loud = b"Subject: x\r\n" + b"X: " + b"\x01" * 400_000 + b"\r\n" + b"To: <a@b.example>\r\n" * 20_000 + b"\r\nx"
    many = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n" + loud
    found = whole_mail.read(b"\r\n".join([many] * 12), GIVEN)
    assert found.limits.fields == 500
    assert "header_block_bytes" in {hit.name for hit in found.limits_hit}
    assert len(msgspec.json.encode(found)) < whole_mail.ARTEFACT_LIMIT_BYTES
