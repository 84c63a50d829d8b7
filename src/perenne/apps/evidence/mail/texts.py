"""The texts of a message: decoded bodies, the links in them, the files uuencoded in them.

Here: parts that are text and no attachment. Not here: how links are found in a kind of text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from perenne.apps.evidence.mail import html, links, uuencode
from perenne.apps.evidence.mail.charsets import decoded
from perenne.apps.evidence.mail.charsets import text_of as raw_text
from perenne.apps.evidence.mail.defects import DefectKind
from perenne.apps.evidence.mail.flowed import Flow, unflowed
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.part_facts import Body, Link, Part, Uuencoded
from perenne.apps.evidence.mail.space import Budget
from perenne.apps.evidence.mail.spots import Spots

_Candidate = tuple[str, str, str, int, str | None]  # place, target, raw, start, shown


def body_of(part: Part, content: bytes, flow: Flow, budget: Budget, notes: Notes) -> Body:
    """The decoded text of a part, unflowed when it flows; behind the bound of text it is cut."""
    if len(content) > budget.text_bytes:
        notes.hit("text_bytes", part.path)
        content = content[: budget.text_bytes]
    budget.text_bytes -= len(content)
    found = decoded(content, part.charset)
    if not found.known:
        notes.defect("charset_unknown", part.path, part.offset, part.length)
    if not found.fits:
        notes.defect("charset_invalid_bytes", part.path, part.offset, part.length)
    kind = part.type if part.type == "text/html" else "text/plain"
    flow = flow if kind == "text/plain" else "no"
    text = unflowed(found.text, flow)
    return Body(part.path, kind, found.codec, part.charset, flow != "no", text, part.offset, part.length)


def links_of(part: Part, body: Body, content: bytes, first: int, budget: Budget, notes: Notes) -> Iterator[Link]:
    """The links of a text in their order, numbered from `first`."""
    if "://" not in body.text:
        return
    spots = Spots(content, body.text, body.charset, moved=body.flowed) if part.coding == "identity" else None
    most = notes.limits.link_bytes
    for number, (place, target, raw, start, shown) in enumerate(_candidates(body), first):
        if not budget.links:
            notes.hit("links", part.path)
            return
        budget.links -= 1
        if len(target) > most or len(raw) > most:
            notes.hit("link_bytes", part.path)
            target, raw = target[:most], raw[:most]
        spot = None if spots is None else spots.of(start, raw)
        span = (part.offset, part.length) if spot is None else (part.offset + spot[0], len(spot[1]))
        written = raw if spot is None else spot[1].decode("latin-1")
        host = links.host_of(target)
        claimed = None if shown is None else links.shown_host(shown)
        mismatch = claimed is not None and claimed != host
        known = (written, host, shown, mismatch, start, len(raw), spot is not None)
        yield Link(part.path, number, place, target, *known, *span)


def uuencoded_of(part: Part, content: bytes, notes: Notes) -> Iterator[Uuencoded]:
    """The files uuencoded within a text."""
    if b"begin" not in content:
        return
    flags: set[DefectKind] = set()
    for block in uuencode.blocks_in(content, flags):
        length = block.end - block.start
        span = (part.offset + block.start, length) if part.coding == "identity" else (part.offset, part.length)
        digest = hashlib.sha256(block.content).hexdigest()
        name = raw_text(block.name.decode("latin-1"))
        yield Uuencoded(part.path, name, len(block.content), digest, block.start, length, *span)
    for flag in sorted(flags):
        notes.defect(flag, part.path, part.offset, part.length)


def _candidates(body: Body) -> Iterator[_Candidate]:
    if body.type == "text/html":
        for link in html.links_of(body.text):
            yield link.place, link.target, link.raw, link.start, link.shown
    else:
        for found in links.links_in(body.text):
            yield "text", found.target, found.target, found.start, None
