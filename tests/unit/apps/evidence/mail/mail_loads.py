"""Mails that broke other readers, at the sizes that broke them; run as a program it tells time and memory of each."""

from __future__ import annotations

import base64
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from perenne.apps.evidence.mail import analyse

WORDS = b"\r\n ".join([b"=?utf-8?B?w6nDqQ==?="] * 55_000)
SECTIONS = b";\r\n ".join(b"filename*%d*=%%41b" % number for number in range(4_000))
RECIPIENTS = b",\r\n ".join(b"User %d <u%d@x%d.example>" % (number, number, number) for number in range(20_000))
LEVELS = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(2_000))
TEXTS = {
    "unclosed tags": b"<a href='",
    "angle brackets": b"<",
    "comments": b"<!-- ",
    "scripts": b"<script>",
    "entities": b"&#99999",
    "schemes": b"http://",
    "brackets after a link": b"http://a.example))))))",
    "uuencode": b"\nbegin 644 x",
}
VALUES = {
    "From: ": (b"(", b"()", b'"\\"', b"<", b"a @ ", b"<@a,"),
    "Received: ": (b"from by via with ", b";", b"a.b.c "),
    "Content-Type: a/b; ": (b";", b"a ", b"a=b ", b'a="'),
    "Authentication-Results: x; ": (b'a="', b"spf=pass;", b"a"),
    "References: ": (b"<a@b> ", b"<"),
    "Date: ": (b"1 ",),
    "Subject: ": (b"=?", b"=?utf-8?q?", b"\0", b"\xff"),
}


def loads() -> Iterator[tuple[str, bytes]]:
    """Each load with its name."""
    content = base64.encodebytes(bytes(range(256)) * 12_288)
    yield "attachment of 3 MiB", b"Content-Type: a/b\r\nContent-Transfer-Encoding: base64\r\n\r\n" + content
    yield "2,000 multipart levels", LEVELS
    yield "20,000 parts", b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 20_000
    yield "20,000 recipients", b"To: " + RECIPIENTS + b"\r\n\r\nx"
    yield "subject of 55,000 encoded words", b"Subject: " + WORDS + b"\r\n\r\nx"
    yield "name in 4,000 sections", b"Content-Disposition: attachment;\r\n " + SECTIONS + b"\r\n\r\nx"
    yield "100 nested messages", b"Content-Type: message/rfc822\r\n\r\n" * 100 + b"Subject: x\r\n\r\ny"
    yield "500,000 empty parts", b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\n" * 500_000
    yield "quoted-printable", b"Content-Transfer-Encoding: quoted-printable\r\n\r\n" + b"=41" * 1_000_000
    yield "blanks", b"Content-Transfer-Encoding: quoted-printable\r\n\r\n" + b" " * 3_000_000
    yield "fields", b"a:b\n" * 250_000
    yield "lines that are no fields", b"From: x\n" + b"junk\n" * 200_000
    yield "hops", b"Received: from a.b.c by d; Tue, 04 Mar 2025 09:15:36 +0100\n" * 10_000
    yield "flowed", b"Content-Type: text/plain; format=flowed\n\n" + b"x \n" * 700_000
    for name, piece in TEXTS.items():
        yield name, b"Content-Type: text/html\r\n\r\n" + piece * (1_000_000 // len(piece))
    for field, pieces in VALUES.items():
        for piece in pieces:
            yield f"{field}{piece!r}", field.encode() + piece * (600_000 // len(piece)) + b"\n\nx"


def main() -> None:
    """One line of JSON a load: its name, the CPU seconds it took, the peak of memory so far in MiB."""
    for name, data in loads():
        began_s = time.process_time()
        analyse(data)
        print(json.dumps([name, time.process_time() - began_s, peak_mib()]), flush=True)


def peak_mib() -> int:
    """The most that this program held. `getrusage` would also count the process that started it, until its exec."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) >> 10


if __name__ == "__main__":
    sys.exit(main())
