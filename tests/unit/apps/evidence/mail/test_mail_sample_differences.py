"""The analyser against the standard library on the sample mails: each difference has its rule and its bytes.

Here: differences that the rules of generated mails (`library_facts`) do not cover, one line a mail.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import library_facts
from test_mail_differences import told
from test_mail_facts import SAMPLES

from perenne.apps.evidence.mail import analyse

# The mail and its fact: the rule, and the bytes it is about.
EXPLAINED = {
    ("dovecot-malformed-017", "attachments"): (
        "RFC 2045 section 5.1: the parameter is read though its semicolon is missing", b'mixed\n\tboundary="boundary"'
    ),
    ("mime4j-missing-inner-boundary", "attachments"): (
        "RFC 2046 section 5.1.1: a multipart without a boundary line has no parts", b'boundary="inner-boundary"'
    ),
    ("mimetools-intl", "cc"): (
        "RFC 5322 section 3.2.2: a run of white space is one space", b"Andr=E9_?= Picard"
    ),
    ("mimetools-multi-2evil", "attachments"): (
        "RFC 2231 section 5: the language of an encoded word is no part of its charset", b"=?US-ASCII*EN?Q?pr?="
    ),
    ("rmail-attachment_with_base64_encoded_name", "attachments"): (
        "RFC 2045 section 5.1: a name that is no token is kept as it stands", b"filename==?utf-8?B?"
    ),
    ("rmail-attachment_with_encoded_name", "attachments"): (
        "rule 7: bytes that are not of the named charset are read as Windows-1252", b"iso-2022-jp'ja'01%20Quien"
    ),
    ("rmail-report_422", "attachments"): (
        "RFC 3464 section 2.1: a delivery status is one part, not several", b"message/delivery-status"
    ),
}  # fmt: skip


def why(path: Path, data: bytes, fact: str, ours: object, theirs: object) -> str | None:
    """The rule and the place of its bytes, or None."""
    if fact == "date" and ours is None and b"\ndate:" not in data.lower():
        return f"RFC 5322 section 3.6: without a Date field there is no instant, bytes 0 to {len(data)}"
    rule, bytes_ = EXPLAINED.get((path.stem, fact), ("", b""))
    start = data.find(bytes_)
    return f"{rule}, bytes {start} to {start + len(bytes_)}" if rule and start >= 0 else None


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_each_difference_is_explained(path: Path) -> None:
    """What the two say differently is named in a table, and the bytes it names stand in the mail."""
    data = path.read_bytes()
    ours = told(analyse(data).messages[0])
    for policy in library_facts.POLICIES:
        theirs = library_facts.read(data, policy)
        for fact in library_facts.FACTS:
            if ours[fact] != theirs[fact]:
                reason = library_facts.why(data, fact, ours[fact], theirs[fact])
                assert reason or why(path, data, fact, ours[fact], theirs[fact]), (fact, ours[fact], theirs[fact])
