"""What a person should look at: parts of a message that do not fit each other, as they do not in forged mail.

Here: comparisons of facts. Not here: any verdict; each finding has innocent reasons too.
"""

from __future__ import annotations

from collections.abc import Iterator

from perenne.apps.evidence.mail.dates import seconds_between
from perenne.apps.evidence.mail.defects import FindingKind
from perenne.apps.evidence.mail.header_facts import Authentication, Date, Field, Hop, Mailbox
from perenne.apps.evidence.mail.headers import Header
from perenne.apps.evidence.mail.hosts import aligned
from perenne.apps.evidence.mail.notices import Finding
from perenne.apps.evidence.mail.part_facts import Attachment, Link

# Headers that RFC 5322 section 3.6 allows once: readers disagree on which of two counts.
ONCE = ("from", "sender", "reply-to", "to", "cc", "bcc", "message-id", "in-reply-to", "references", "subject", "date")
_COMPARED: tuple[tuple[str, FindingKind], ...] = (
    ("return-path", "return_path_differs"),
    ("reply-to", "reply_to_differs"),
    ("sender", "sender_differs"),
)
_FAILED = frozenset({"fail", "softfail", "permerror"})
_DIRECTION_MARKS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_CONTAINERS = frozenset(
    {
        "application/mbox",
        "application/ms-tnef",
        "application/pkcs7-mime",
        "application/vnd.ms-tnef",
        "application/x-pkcs7-mime",
    }
)
_SLACK_S = 300


def of_header(header: Header, path: str) -> Iterator[Finding]:
    """Fields that stand twice where one is allowed."""
    for name in ONCE:
        same = header.all(name)
        if len(same) > 1:
            yield _at(same[1], "field_repeated", f"{name} stands {len(same)} times", path)


def of_people(people: dict[str, tuple[Mailbox, ...]], path: str) -> Iterator[Finding]:
    """Senders that belong to other domains than the first From address, and names that are other addresses."""
    first = next((one for one in people["from"] if one.domain), None)
    for name, kind in _COMPARED if first is not None else ():
        for one in people[name]:
            if first is not None and one.domain and not aligned(one.domain, first.domain):
                yield Finding(kind, f"{one.domain} beside {first.domain} in From", path, one.offset, one.length)
    for one in people["from"]:
        shown = next((word.strip("<>()\"',;") for word in one.name.split() if "@" in word), "")
        if shown and shown.lower() != one.address.lower():
            detail = f"{shown} is shown for {one.address}"
            yield Finding("display_name_is_address", detail, path, one.offset, one.length)


def of_road(hops: tuple[Hop, ...], date: Date | None, path: str) -> Iterator[Finding]:
    """Hops that do not fit each other, and a mail that was written after it came."""
    for hop in hops:
        for check in hop.checks:
            yield Finding(check, f"Received {hop.occurrence}", path, hop.offset, hop.length)  # type: ignore[arg-type]
    delivery = next((hop.date.instant for hop in hops if hop.date and hop.date.instant), None)
    if date is not None and date.instant and delivery and seconds_between(delivery, date.instant) > _SLACK_S:
        yield Finding("date_after_delivery", f"{date.instant} after {delivery}", path, date.offset, date.length)


def of_results(results: tuple[Authentication, ...], path: str) -> Iterator[Finding]:
    """Recorded results that say no."""
    for one in results:
        if one.result in _FAILED:
            detail = f"{one.method}={one.result} by {one.server or 'nobody named'} ({one.trust})"
            yield Finding("authentication_failed", detail, path, one.offset, one.length)


def of_links(links: list[Link]) -> Iterator[Finding]:
    """Links that show another host than they lead to."""
    for link in links:
        if link.mismatch:
            detail = f"{link.shown} leads to {link.host}"
            yield Finding("link_shows_other_host", detail, link.path, link.offset, link.length)


def of_attachments(attachments: list[Attachment]) -> Iterator[Finding]:
    """Names that hide what a file is, by marks of direction, folders or blanks; and what stays closed."""
    for one in attachments:
        if one.type in _CONTAINERS:
            yield Finding("container_not_opened", one.type, one.path, one.offset, one.length)
        elif one.type == "message/partial":
            yield Finding("message_in_pieces", one.type, one.path, one.offset, one.length)
        name = one.name or ""
        hides = _DIRECTION_MARKS.intersection(name) or "/" in name or "\\" in name or "   " in name or "␀" in name
        if hides:
            yield Finding("file_name_hides", name[:200], one.path, one.offset, one.length)


def _at(field: Field, kind: FindingKind, detail: str, path: str) -> Finding:
    return Finding(kind, detail, path, field.offset, field.length)
