"""The mail of the demonstration workspace, written here so that nothing has to be downloaded or installed."""

from __future__ import annotations

_LINES = (
    "Received: from relay.example.test ([192.0.2.80])",
    " by mx.example.test with ESMTP id specimen-1;",
    " Sat, 26 Sep 2026 20:59:00 +0000",
    "Message-ID: <specimen-1@example.test>",
    "Date: Sat, 26 Sep 2026 20:58:00 +0000",
    "From: Alice Specimen <alice@example.test>",
    "To: Bob Specimen <bob@example.test>",
    "Subject: SPECIMEN",
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=us-ascii",
    "",
    "This mail is invented. The address body-only@example.test stands in the body and must never be reported.",
    "",
)


def specimen_mail() -> bytes:
    """A small invented mail with CRLF line ends: eight observations in its header, one address in its body."""
    return "\r\n".join(_LINES).encode("ascii")
