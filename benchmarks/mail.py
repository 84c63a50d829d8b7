"""The mail analyser beside Python's own `email` (compat32): time and facts of the 32 sample mails, and hostile loads.

Both sides are asked in turn, in CPU time, so that another busy program changes both.
"""

from __future__ import annotations

import email
import email.header
import email.message
import email.utils
import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from figures import Figure

from perenne.apps.evidence.mail import analyse, encoded

ROOT = Path(__file__).parents[1]
OWN = sorted((ROOT / "examples/evidence/eml").glob("*.eml"))
# Those of others lie beside the checkout, and are no part of it.
SHARED = sorted((ROOT.parent / "shared/data/evidence/eml").glob("*.eml"))
SAMPLES = [path.read_bytes() for path in (*OWN, *(path for path in SHARED if not path.name.startswith("own-")))]
PASSES = 5  # over all samples, in a round
# A place is no fact: it is what each fact has.
PLACES = {"offset", "length", "value_offset", "text_offset", "text_length", "header_offset", "header_length", "exact"}
PEOPLE = ("from", "to", "cc", "bcc", "reply-to", "return-path", "sender")


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """Ratios to compat32, and what twice as much of a hostile load costs."""
    passes = 1 if quick else PASSES
    ours_s, theirs_s = [], []
    for _ in range(rounds):
        theirs_s.append(_taken_s(_read_by_compat32, passes))
        ours_s.append(_taken_s(lambda data: encoded(analyse(data)), passes))
    facts = sum(_facts(msgspec.to_builtins(analyse(data).messages)) for data in SAMPLES)
    known = sum(len(_read_by_compat32(data)) for data in SAMPLES)
    time_ratios = [ours / theirs for ours, theirs in zip(ours_s, theirs_s, strict=True)]
    rate_ratios = [facts / known / ratio for ratio in time_ratios]
    worst = _doublings(1 if quick else 4)
    figures = [
        Figure("time of compat32", 1000 * statistics.median(theirs_s), "ms a mail", "", [1000 * s for s in theirs_s]),
        Figure("whole artefact, by it", statistics.median(time_ratios), "times", "<= 3", time_ratios),
        Figure("facts a second, by its own", statistics.median(rate_ratios), "times", ">= 1", rate_ratios),
        *(Figure(f"doubled: {name}", ratio, "times", "<= 2.5") for name, ratio in worst.items()),
    ]
    return {
        "rounds": rounds,
        "passes": passes,
        "mails": len(SAMPLES),
        "facts": facts,
        "facts_of_compat32": known,
    }, figures


def _taken_s(read: Callable[[bytes], object], passes: int) -> float:
    """CPU seconds a mail."""
    began_s = time.process_time()
    for _ in range(passes):
        for data in SAMPLES:
            read(data)
    return (time.process_time() - began_s) / (passes * len(SAMPLES))


def _read_by_compat32(data: bytes) -> list[object]:
    """The facts that the standard library gives, asked for as its manual says."""
    message = email.message_from_bytes(data)
    found: list[object] = [_decoded(message["subject"]), message["message-id"], _date(message["date"])]
    for name in PEOPLE:
        for shown, address in email.utils.getaddresses(message.get_all(name, [])):
            found += [_decoded(shown), address]
    found += message.get_all("received", [])
    for part in message.walk():
        found += [part.get_content_type(), part.get_content_charset(), part.get_content_disposition()]
        if not part.is_multipart():
            content = part.get_payload(decode=True) or b""
            found += [part.get_filename(), len(content), hashlib.sha256(content).hexdigest()]
            if part.get_content_maintype() == "text":
                found.append(content.decode("utf-8", "replace"))
    return [fact for fact in found if fact not in (None, "")]


def _decoded(value: object) -> str:
    try:
        return str(email.header.make_header(email.header.decode_header(str(value or ""))))
    except (LookupError, ValueError):
        return str(value)


def _date(value: object) -> object:
    try:
        return email.utils.parsedate_to_datetime(str(value)) if value else None
    except (TypeError, ValueError):
        return None


def _facts(value: Any) -> int:
    """Leaf values that say something."""
    if isinstance(value, dict):
        return sum(_facts(one) for name, one in value.items() if name not in PLACES)
    if isinstance(value, list | tuple):
        return sum(map(_facts, value))
    return value not in (None, "", False)


def _loads(count: int) -> Iterator[tuple[str, bytes]]:
    """Mails that make readers slow, `count` times as large as the smallest."""
    yield "parts", b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 1_000 * count
    yield "recipients", b"To: " + b", ".join([b"Ann <a@b.example>"] * 2_000 * count) + b"\r\n\r\n"
    yield "encoded words", b"Subject: " + b"\r\n ".join([b"=?utf-8?B?w6nDqQ==?="] * 600 * count) + b"\r\n\r\n"
    yield "tags", b"Content-Type: text/html\r\n\r\n" + b"<a href='" * 50_000 * count
    yield "links", b"\r\n" + b"http://a.example/x, " * 1_000 * count
    yield "comments", b"From: " + b"(" * 60_000 * count + b"\r\n\r\n"
    yield "quoted-printable", b"Content-Transfer-Encoding: quoted-printable\r\n\r\n" + b"=41" * 100_000 * count
    yield "base64", b"Content-Transfer-Encoding: base64\r\n\r\n" + b"AAAA=" * 60_000 * count
    yield "hops", b"Received: from a.example by b.example; x\r\n" * 1_000 * count + b"\r\n"


def _doublings(count: int) -> dict[str, float]:
    """How many times as long twice as much takes, the best of three."""
    found = {}
    for (name, small), (_, large) in zip(_loads(count), _loads(2 * count), strict=True):
        found[name] = min(_once_s(large) for _ in range(3)) / min(_once_s(small) for _ in range(3))
    return found


def _once_s(data: bytes) -> float:
    began_s = time.process_time()
    analyse(data)
    return time.process_time() - began_s
