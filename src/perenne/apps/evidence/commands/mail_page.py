"""The page that `mail` prints: tables of what a mail says, each line ending in offset and length of its bytes.

Here: which facts, in which order. Not here: how they are found; words and rounding are the surface's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perenne.apps.evidence.commands.screen import Screen
from perenne.apps.evidence.mail.artefact import Analysis, Message
from perenne.apps.evidence.mail.header_facts import Hop
from perenne.apps.evidence.mail.part_facts import Part

_PEOPLE = ("from_", "sender", "reply_to", "return_path", "to", "cc", "bcc")
_SHOWN_LINES = 200


def lines_of(found: Analysis, name: str, screen: Screen) -> Iterator[str]:
    """The lines of the page: the file, then each message, then defects and bounds that were hit."""
    yield f"{screen.one_line(name)}  {found.source.size_bytes} bytes  sha256 {found.source.sha256}"
    for message in found.messages:
        yield from _message(message, screen)
    defects = [(f"{one.kind}", _where(one.space, one.path), _bytes(one.offset, one.length)) for one in found.defects]
    yield from _table("defects", ("defect", "part", "bytes"), defects, screen, flexible=1)
    hits = [(one.name, str(one.limit), one.path or "-") for one in found.limits_hit]
    yield from _table("limits hit", ("limit", "at", "part"), hits, screen)


def _message(message: Message, screen: Screen) -> Iterator[str]:
    yield ""
    held = f"in the decoded bytes of part {message.space}" if message.space else "in the file"
    name = f"message {message.path}" if message.path else "message"
    yield screen.one_line(f"{name}  bytes {_bytes(message.offset, message.length)} {held}")
    if message.path:
        yield f"  sha256 {message.sha256}"
    yield from _table("", ("field", "value", "bytes"), list(_header(message)), screen, flexible=1)
    hops = [(str(hop.occurrence), _road(hop), _instant(hop), _bytes(hop.offset, hop.length)) for hop in message.hops]
    yield from _table("hops, the last one on top", ("hop", "from and by", "when", "bytes"), hops, screen, flexible=1)
    results = [
        (one.method, one.result, one.server or "-", one.trust, _bytes(one.offset, one.length))
        for one in message.authentication
    ]
    head = ("method", "result", "server", "trust", "bytes")
    yield from _table("recorded results, not verified", head, results, screen, flexible=2)
    yield from _tree(message, screen)
    links = [(one.path, one.target, _bytes(one.offset, one.length)) for one in message.links]
    yield from _table("links", ("part", "target", "bytes"), links, screen, flexible=1)
    findings = [(one.kind, one.detail, _bytes(one.offset, one.length)) for one in message.findings]
    yield from _table("findings", ("finding", "detail", "bytes"), findings, screen, flexible=1)


def _header(message: Message) -> Iterator[tuple[str, str, str]]:
    for subject in message.subjects:
        yield "subject", subject.value, _bytes(subject.offset, subject.length)
    for name in _PEOPLE:
        for one in getattr(message, name):
            shown = f"{one.name} <{one.address}>" if one.name else one.address or "(empty)"
            yield one.header, shown, _bytes(one.offset, one.length)
    if message.date is not None:
        date = message.date
        instant = date.instant or "no instant"
        yield "date", f"{instant}  zone {date.zone}  {date.raw}", _bytes(date.offset, date.length)
    for text in (message.message_id, *message.in_reply_to, *message.references):
        if text is not None:
            yield text.header, text.value, _bytes(text.offset, text.length)


def _tree(message: Message, screen: Screen) -> Iterator[str]:
    """The parts below each other, each with its name and the hash of its decoded bytes on lines of their own."""
    yield from ("", "parts")
    for part in message.parts[:_SHOWN_LINES]:
        indent = "  " * (1 + _level(part, message))
        size = "" if part.size_bytes is None else f"  {part.size_bytes} bytes {part.coding}"
        mark = "  attachment" if part.attachment else ""
        place = _bytes(part.offset, part.length)
        yield f"{indent}{part.path or '-'}  {screen.one_line(part.type)}{size}{mark}  {place}"
        if part.name is not None:
            yield f"{indent}   {screen.one_line(part.name.value)}"
        if part.sha256 is not None:
            yield f"{indent}   sha256 {part.sha256}"
    yield from _more(len(message.parts))


def _level(part: Part, message: Message) -> int:
    own = part.path[len(message.path) :].strip(".")
    return own.count(".") + bool(own)


def _table(
    title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], screen: Screen, flexible: int = -1
) -> Iterator[str]:
    if not rows:
        return
    yield from ("", title) if title else ("",)
    yield from (f"  {line}" for line in screen.table(head, rows[:_SHOWN_LINES], width=78, flexible=flexible))
    yield from _more(len(rows))


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN_LINES:
        yield f"  … and {count - _SHOWN_LINES} more; --json shows them all"


def _road(hop: Hop) -> str:
    return f"{hop.from_ or '-'} → {hop.by or '-'}"


def _instant(hop: Hop) -> str:
    return hop.date.instant or "no instant" if hop.date else "no date"


def _where(space: str, path: str) -> str:
    return f"{path or '-'} (within {space})" if space else path or "-"


def _bytes(offset: int, length: int) -> str:
    return f"{offset}+{length}"
