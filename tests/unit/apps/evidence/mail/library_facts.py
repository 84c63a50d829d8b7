"""What the standard library says of a mail, in one shape for both policies, and why it may differ from the analyser.

Here: the table of explained differences, each judged on the bytes of the field. Nothing here asks the analyser.
"""

from __future__ import annotations

import binascii
import email
import hashlib
import re
from collections.abc import Callable
from datetime import UTC
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Policy, compat32, default
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any

POLICIES: tuple[Policy[Any], ...] = (compat32, default)
PEOPLE = ("from", "to", "cc")
FACTS = ("subject", "message-id", "date", *PEOPLE, "attachments")


class Digest(str):
    """A SHA-256 in hexadecimal, beside the bytes it is of."""

    content: bytes

    @classmethod
    def of(cls, content: bytes) -> Digest:
        made = cls(hashlib.sha256(content).hexdigest())
        made.content = content
        return made


def read(data: bytes, policy: Policy[Any]) -> dict[str, Any]:
    """Each fact, or what was raised while it was read."""
    message = email.message_from_bytes(data, policy=policy)
    return {fact: _tried(_READERS.get(fact, _people), message, fact, policy) for fact in FACTS}


def _tried(reader: Callable[..., Any], *given: Any) -> Any:
    try:
        return reader(*given)
    except Exception as fault:  # a library under comparison may raise anything
        return f"raised {type(fault).__name__}"


def _text(value: Any, policy: Policy[Any]) -> str | None:
    if value is None:
        return None
    return str(make_header(decode_header(value))) if policy is compat32 else str(value)


def _field(message: Message, fact: str, policy: Policy[Any]) -> str | None:
    return _text(message[fact], policy)


def _date(message: Message, fact: str, policy: Policy[Any]) -> str | None:
    moment = parsedate_to_datetime(str(message[fact]))
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if moment.tzinfo else None


def _people(message: Message, fact: str, policy: Policy[Any]) -> list[tuple[str | None, str]]:
    fields = message.get_all(fact, [])
    if policy is compat32:
        return [(_text(name, policy), address) for name, address in getaddresses([str(one) for one in fields])]
    return [(one.display_name, one.addr_spec) for field in fields for one in field.addresses]


def _attachments(message: Message, fact: str, policy: Policy[Any]) -> list[tuple[str, str | None, str]]:
    found: list[tuple[str, str | None, str]] = []
    stack: list[Any] = [message]
    while stack:
        part = stack.pop()
        type_, name = part.get_content_type(), part.get_filename()
        held = name is not None or part.get_content_disposition() == "attachment"
        if part.get_content_maintype() == "multipart":
            stack += reversed(part.get_payload())
        elif type_ not in ("text/plain", "text/html") or held:
            content = _tried(_content, part)
            found.append((type_, _text(name, policy), Digest.of(content) if isinstance(content, bytes) else content))
    return found


def _content(part: Any) -> Any:
    """The bytes of an attachment; a nested message can only be written out again."""
    nested = part.get_content_type() == "message/rfc822"
    return part.get_payload(0).as_bytes() if nested else part.get_payload(decode=True)


_READERS: dict[str, Callable[..., Any]] = {
    "subject": _field, "message-id": _field, "date": _date, "attachments": _attachments,
}  # fmt: skip
_ADJACENT = re.compile(rb"\?=[ \t]*\r?\n?[ \t]+=\?")
_FOLD = re.compile(rb"\r?\n[ \t]")
_ZONE = re.compile(rb"[+-]\d{4}|GMT|UT|EST|PDT|Z")


def place(data: bytes, fact: str) -> tuple[int, int]:
    """Where the first field of a name lies in the header of the message; its value alone."""
    found = re.search(rb"(?im)^%s:((?:[^\r\n]|\r?\n[ \t])*)" % fact.encode(), data)
    return found.span(1) if found else (0, 0)


def why(data: bytes, fact: str, ours: Any, theirs: Any) -> str | None:
    """The rule that explains a difference and the bytes that it is about; None when nothing explains it."""
    if fact == "attachments":
        return _why_attachments(data, ours, theirs)
    start, end = place(data, fact)
    raw = data[start:end]
    reason = _why_date(raw, ours, theirs) if fact == "date" else _why_text(raw, ours, theirs)
    return f"{reason}, bytes {start} to {end}" if reason and start < end else None


def _why_date(raw: bytes, ours: str | None, theirs: str | None) -> str | None:
    if b"-0000" in raw and theirs is None and ours is not None:
        return "RFC 5322 section 3.3: -0000 is an instant whose local zone is unknown"
    if re.search(rb"28:00:00|10:61:00", raw) and ours is None:
        return "RFC 5322 section 3.3: an hour or minute that does not exist gives no instant"
    if not _ZONE.search(raw) or b"EST5EDT" in raw or b"XYZ" in raw:
        return "RFC 5322 section 4.3: no zone, or an unknown one, gives no instant" if ours is None else None
    return None


def _why_text(raw: bytes, ours: Any, theirs: Any) -> str | None:
    if _ADJACENT.search(raw) and _same_ascii(ours, theirs):
        return "RFC 2047 section 6.2: white space between encoded words is none, and their bytes are joined"
    if not raw.isascii() and _same_ascii(ours, theirs):
        return "RFC 6532 section 3: raw UTF-8 in a header is text"
    if _FOLD.search(raw) and _spaced(ours) == _spaced(theirs):
        return "RFC 5322 section 2.2.3: a folded line is one line, runs of white space one space"
    return None


def _same_ascii(ours: Any, theirs: Any) -> bool:
    """Whether both hold the same ASCII letters; a broken character may have swallowed the byte after it (Shift_JIS)."""
    return _bare(ours) in (_bare(theirs), _bare(theirs, r"[\ufffd\udc80-\udcff] ?[!-~]|[^!-~]"))


def _bare(value: Any, dropped: str = r"[^!-~]") -> Any:
    if isinstance(value, str):
        return re.sub(dropped, "", value)
    return [tuple(_bare(item, dropped) for item in one) for one in value] if isinstance(value, list) else value


def _spaced(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    return [tuple(map(_spaced, one)) for one in value] if isinstance(value, list) else value


def _why_attachments(data: bytes, ours: Any, theirs: Any) -> str | None:
    """Types, names and number are the same; each hash that differs has its reason."""
    if not isinstance(theirs, list) or [one[:2] for one in ours] != [one[:2] for one in theirs]:
        return None
    reasons = [_why_hash(data, *one) for one in zip(ours, theirs, strict=True) if one[0] != one[1]]
    return " and ".join(sorted(set(filter(None, reasons)))) if all(reasons) else None


def _why_hash(data: bytes, ours: tuple[str, str | None, str], theirs: tuple[str, str | None, str]) -> str | None:
    if ours[0] == "message/rfc822":
        return "rule 4: a nested message is hashed on its bytes in evidence, not written out again"
    if not isinstance(theirs[2], Digest):
        return None
    start = data.find(theirs[2].content)
    coding = re.compile(rb"(?i)transfer-encoding: +base64 \r?\n").search(data[:start][-400:]) if start > 0 else None
    if coding and hashlib.sha256(binascii.a2b_base64(theirs[2].content)).hexdigest() == ours[2]:
        return "RFC 2045 section 6.1: white space after the name of a coding is not part of it"
    return None
