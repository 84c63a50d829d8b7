"""Mails made from a seed together with the truth about them, which was known before a byte was written.

Here: whole messages and their parts. Not here: how a header says a text, a name, an address or a date
(`generated_headers`). Nothing here asks the analyser or a mail library.
"""

from __future__ import annotations

import binascii
import hashlib
import random
from dataclasses import dataclass, field

import generated_headers as say

TYPES = ("application/pdf", "image/png", "application/octet-stream", "text/csv", "application/x-own")


@dataclass
class Attached:
    """An attachment: its path in the whole tree, and the bytes as they were before they were encoded."""

    path: str
    type: str
    name: str | None
    content: bytes

    @property
    def facts(self) -> tuple[str, str, str | None, int, str]:
        return self.path, self.type, self.name, len(self.content), hashlib.sha256(self.content).hexdigest()


@dataclass
class Truth:
    """What is true of one message."""

    path: str = ""
    subject: str = ""
    people: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    instant: str | None = None
    message_id: str = ""
    hops: list[str | None] = field(default_factory=list)
    attachments: list[Attached] = field(default_factory=list)
    bodies: list[tuple[str, str]] = field(default_factory=list)
    links: set[str] = field(default_factory=set)


@dataclass
class Mail:
    """The bytes of a mail, and the truth of each message in it, the outer one first."""

    data: bytes
    truths: list[Truth]
    eol: bytes


def mail(seed: int) -> Mail:
    """The mail of a seed."""
    luck = random.Random(seed)
    eol = luck.choice((b"\r\n", b"\r\n", b"\n"))
    truths: list[Truth] = []
    return Mail(_message(luck, eol, "", 0, truths), truths, eol)


def _message(luck: random.Random, eol: bytes, path: str, depth: int, truths: list[Truth]) -> bytes:
    truth = Truth(path)
    truths.append(truth)
    lines = _header(luck, truth)
    inner = f"{path}." if path else ""
    if luck.random() < 0.35:
        header, body = _leaf(luck, eol, f"{inner}1", depth, truth, truths)
    else:
        header, body = _multipart(luck, eol, inner, depth, truth, truths)
    return eol.join((*lines, *header, b"", body))


def _header(luck: random.Random, truth: Truth) -> list[bytes]:
    lines: list[bytes] = []
    for number in range(luck.randint(0, 3)):
        said, instant = say.date(luck)
        truth.hops.append(instant)
        lines.append(b"Received: from a%d.example by b.example%s id q%d; %s" % (number, b"\0", number, said))
    lines = [line.replace(b"\0", b" with ESMTP") for line in lines]
    truth.subject, said = say.subject(luck)
    lines.append(b"Subject: " + said)
    for name in ("from", "to", "cc"):
        people, said = say.addresses(luck, 1 if name == "from" else luck.randint(1, 3))
        truth.people[name] = people
        lines.append(name.title().encode() + b": " + said)
    said, truth.instant = say.date(luck)
    lines.append(b"Date: " + said)
    truth.message_id = f"<{luck.randrange(10**9)}.x@id.example>"
    lines.append(b"Message-ID: " + truth.message_id.encode())
    lines.append(b"MIME-Version: 1.0")
    return [folded for line in lines for folded in line.split(b"\n")]


def _multipart(
    luck: random.Random, eol: bytes, inner: str, depth: int, truth: Truth, truths: list[Truth]
) -> tuple[list[bytes], bytes]:
    boundary = b"=_%x" % luck.randrange(1 << 40)
    pieces = [luck.choice((b"", b"not for people"))]
    for number in range(1, luck.randint(2, 5)):
        if depth < 3 and luck.random() < 0.15:
            header, body = _multipart(luck, eol, f"{inner}{number}.", depth + 1, truth, truths)
        else:
            header, body = _leaf(luck, eol, f"{inner}{number}", depth, truth, truths)
        pieces.append(b"--" + boundary + luck.choice((b"", b" ")) + eol + eol.join((*header, b"", body)))
    pieces.append(b"--" + boundary + b"--" + eol)
    subtype = luck.choice((b"mixed", b"related", b"alternative", b"x-own"))
    field_ = luck.choice((b'multipart/%s; boundary="%s"', b'Multipart/%s;\n\tcharset=x;\n boundary="%s"'))
    return (b"Content-Type: " + field_ % (subtype, boundary)).split(b"\n"), eol.join(pieces)


def _leaf(
    luck: random.Random, eol: bytes, path: str, depth: int, truth: Truth, truths: list[Truth]
) -> tuple[list[bytes], bytes]:
    kind = luck.random()
    if kind < 0.45:
        return _text(luck, eol, path, truth)
    if kind < 0.6 and depth < 3:
        return _nested(luck, eol, path, depth, truth, truths)
    type_, content = luck.choice(TYPES), luck.randbytes(luck.randrange(400))
    name, parameters = say.file_name(luck)
    truth.attachments.append(Attached(path, type_, name, content))
    coding, body = luck.choice((_base64, _quoted))(luck, content, eol)
    header = [b"Content-Type: " + type_.encode(), b"Content-Disposition: attachment" + parameters]
    luck.shuffle(header)
    return [part for line in (*header, coding) for part in line.split(b"\n")], body


def _text(luck: random.Random, eol: bytes, path: str, truth: Truth) -> tuple[list[bytes], bytes]:
    charset, words = luck.choice(say.CHARSETS)
    link = f"https://h{luck.randrange(99)}.example/p{luck.randrange(999)}?a=1&b=2"
    truth.links.add(link)
    html = luck.random() < 0.4
    lines = [" ".join(luck.choices(words, k=4)) for _ in range(luck.randint(1, 5))]
    escaped = link.replace("&", "&amp;")
    lines.append(f'<a href="{escaped}">{lines[0]}</a>.' if html else f"({link}).")
    text = "\n".join(lines)
    truth.bodies.append((path, text))
    content = text.encode(charset).replace(b"\n", eol)
    coding, body = luck.choice((_base64, _quoted, _plain))(luck, content, eol)
    type_ = b"text/html" if html else b"text/plain"
    return [b"Content-Type: " + type_ + b"; charset=" + charset.encode(), coding], body


def _nested(
    luck: random.Random, eol: bytes, path: str, depth: int, truth: Truth, truths: list[Truth]
) -> tuple[list[bytes], bytes]:
    attached = Attached(path, "message/rfc822", None, b"")
    truth.attachments.append(attached)
    coded = luck.random() < 0.3
    ends = luck.choice((b"\r\n", b"\n")) if coded else eol
    attached.content = _message(luck, ends, f"{path}.m", depth + 1, truths)
    coding, body = (_base64 if coded else _plain)(luck, attached.content, eol)
    return [b"Content-Type: message/rfc822", coding], body


def _plain(luck: random.Random, content: bytes, eol: bytes) -> tuple[bytes, bytes]:
    return b"Content-Transfer-Encoding: " + luck.choice((b"8bit", b"8BIT", b"binary")), content


def _base64(luck: random.Random, content: bytes, eol: bytes) -> tuple[bytes, bytes]:
    size = luck.choice((45, 57, 30))
    lines = (
        binascii.b2a_base64(content[at : at + size], newline=False) for at in range(0, len(content), size)
    )  # fmt: skip
    return b"Content-Transfer-Encoding: " + luck.choice((b"base64", b"BASE64", b" Base64 ")), eol.join(lines)


def _quoted(luck: random.Random, content: bytes, eol: bytes) -> tuple[bytes, bytes]:
    """RFC 2045 section 6.7, each line short; every byte but letters and digits may be written as =XX, line ends are."""
    safe = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789<>/:")
    said = [bytes((one,)) if one in safe else b"=%02X" % one for one in content]
    lines = [b"".join(said[at : at + 24]) for at in range(0, len(said), 24)]
    return b"Content-Transfer-Encoding: quoted-printable", (b"=" + eol).join(lines)
