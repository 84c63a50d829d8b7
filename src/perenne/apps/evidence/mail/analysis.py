"""The mail analyser: bytes of a mail in, every fact with its place out.

Here: the file and the messages nested in it, with a stack of our own. Not here: any file, any clock, any engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from perenne.apps.evidence.mail import message
from perenne.apps.evidence.mail.artefact import Analyser, Analysis, Message, Source
from perenne.apps.evidence.mail.limits import Limits
from perenne.apps.evidence.mail.message import Nested, Place
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.space import Budget, Space
from perenne.apps.evidence.mail.splitter import Region

_DEFAULT = Limits()


def analyse(data: bytes, limits: Limits = _DEFAULT, *, trusted: Collection[str] = ()) -> Analysis:
    """All that a mail says: header fields, people, dates, hops, parts, texts, links, findings, defects.

    Args:
        data: the whole file; any bytes.
        trusted: names of receivers (`authserv-id`) whose topmost results count as theirs.
    Guarantees: never raises on any input, works in linear time, and the same bytes, limits and names always give an
        equal analysis. Every `raw` has one character a byte and lies at its place.
    """
    notes, budget = Notes(limits), Budget(limits)
    whole = Source(len(data), hashlib.sha256(data).hexdigest())
    if len(data) > limits.file_bytes:
        notes.hit("file_bytes", "")
        data = data[: limits.file_bytes]
    named = frozenset(name.lower() for name in trusted)
    found: list[Message] = []
    stack = [Place(Space(data, ""), Region(0, len(data)), "", None, 0)]
    while stack:
        place = stack.pop()
        if not budget.messages:
            notes.hit("messages", place.path)
            break
        budget.messages -= 1
        one, nested = message.read(place, budget, notes, named)
        if one.line_ends == "mixed" and place.space.path == place.path:
            notes.defect("line_ends_mixed", place.path, one.offset, one.length)
        found.append(one)
        stack += [_place(carrier, place) for carrier in reversed(nested)]
    return Analysis(whole, Analyser(), limits, tuple(found), tuple(notes.defects), notes.hits)


def _place(nested: Nested, outer: Place) -> Place:
    """Where a nested message lies: within its carrier's bytes, or in the bytes its part decodes to."""
    part, content = nested.held.part, nested.held.content or b""
    path = part.message or part.path
    if nested.coded:
        return Place(Space(content, part.path), Region(0, len(content)), path, part.path, outer.nesting + 1)
    region = Region(part.offset, part.offset + part.length)
    return Place(outer.space, region, path, part.path, outer.nesting + 1)
