"""What receivers recorded about the sender (RFC 8601, 7208, 8617) and the signatures that stand in the mail.

Here: what is written, and how far it may be trusted. Nothing is verified: that needs the network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from perenne.apps.evidence.mail.charsets import text_of
from perenne.apps.evidence.mail.header_facts import Authentication, Field, Signature, Trust
from perenne.apps.evidence.mail.headers import Header
from perenne.apps.evidence.mail.tokens import unquoted, without_comments

_QUOTED = r'"(?:[^"\\]|\\.)*"?'
_MARK = re.compile(rf"{_QUOTED}|;", re.DOTALL)
# The look-behind lets each run of letters be tried once, at its beginning.
_PAIR = re.compile(rf"(?<![A-Za-z0-9._/-])([A-Za-z0-9._/-]+)[ \t\r\n]*=[ \t\r\n]*({_QUOTED}|[^ \t\r\n;]+)", re.DOTALL)
_SIGNATURES = ("dkim-signature", "arc-message-signature", "arc-seal")

_Segment = tuple[int, int]  # from and to before, in the raw value


def results_of(header: Header, trusted: Collection[str]) -> tuple[Authentication, ...]:
    """The recorded results in the order of their fields: those of receivers, of ARC, of Received-SPF.

    Args:
        trusted: names of receivers whose own results count as theirs (`authserv-id`).
    """
    found: list[Authentication] = []
    block: str | None = None
    over = False
    for field in header.all("authentication-results"):
        results, server = _results(field)
        counts = not trusted or server.lower() in trusted
        if block is None and counts:
            block = server
        over = over or (block is not None and server != block)
        trust: Trust = "claim"
        if block == server and counts and not over:
            trust = "receiver" if trusted else "topmost"
        found += [_with_trust(field, result, server, None, trust) for result in results]
    for field in header.all("arc-authentication-results"):
        results, server = _results(field)
        instance = _instance(field)
        found += [_with_trust(field, result, server, instance, "claim") for result in results]
    return (*found, *(result for field in header.all("received-spf") for result in _spf(field)))


def signatures_of(header: Header) -> tuple[Signature, ...]:
    """The signatures that stand in a header, by kind and in their order."""
    return tuple(_signature(field) for name in _SIGNATURES for field in header.all(name))


def _segments(clean: str) -> Iterator[_Segment]:
    start = 0
    for mark in _MARK.finditer(clean):
        if mark.group() == ";":
            yield start, mark.start()
            start = mark.end()
    yield start, len(clean)


_Result = tuple[_Segment, list[tuple[str, str]]]


def _results(field: Field) -> tuple[list[_Result], str]:
    """The results of a field with their places, and the name of who wrote them."""
    clean = without_comments(field.raw)
    server, results = "", list[_Result]()
    for start, end in _segments(clean):
        pairs = _pairs(clean, start, end)
        if pairs and pairs[0][0] != "i":
            results.append(((start, end), pairs))
        elif not results and not pairs:
            words = clean[start:end].split()
            server = server or (text_of(words[0]) if words else "")
    return results, server


def _pairs(clean: str, start: int, end: int) -> list[tuple[str, str]]:
    return [
        (pair.group(1).lower(), text_of(unquoted(value) if (value := pair.group(2))[0] == '"' else value))
        for pair in _PAIR.finditer(clean, start, end)
    ]


def _with_trust(field: Field, result: _Result, server: str, instance: int | None, trust: Trust) -> Authentication:
    (start, end), pairs = result
    (method, verdict), *properties = pairs
    raw = field.raw[start:end]
    kept = raw.strip(" \t\r\n")
    offset = field.value_offset + start + len(raw) - len(raw.lstrip(" \t\r\n"))
    return Authentication(
        field.name,
        field.occurrence,
        server,
        instance,
        method,
        verdict.lower(),
        tuple(properties),
        trust,
        kept,
        offset,
        len(kept),
    )


def _spf(field: Field) -> Iterator[Authentication]:
    """The result of a Received-SPF field (RFC 7208 section 9.1)."""
    clean = without_comments(field.raw)
    words = clean.split(None, 1)
    if words:
        properties = tuple(_pairs(clean, len(words[0]), len(clean)))
        server = dict(properties).get("receiver", "")
        verdict = text_of(words[0]).rstrip(";").lower()
        place = (field.value_offset, len(field.raw))
        yield Authentication(
            field.name, field.occurrence, server, None, "spf", verdict, properties, "claim", field.raw, *place
        )


def _instance(field: Field) -> int | None:
    clean = without_comments(field.raw)
    return _number(next((value for name, value in _pairs(clean, 0, len(clean)) if name == "i"), ""))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else None


def _signature(field: Field) -> Signature:
    tags = tuple(_tag(field.raw, start, end) for start, end in _segments(field.raw))
    named = {name: value for name, value in reversed(tags) if name}
    instance, domain, selector, chain = (named.get(name, "") for name in ("i", "d", "s", "cv"))
    number = None if field.name == "dkim-signature" else _number(instance)
    written = tuple(tag for tag in tags if tag[0])
    place = (field.value_offset, len(field.raw))
    return Signature(field.name, field.occurrence, number, domain, selector, chain, written, field.raw, *place)


def _tag(raw: str, start: int, end: int) -> tuple[str, str]:
    """One `name=value` (RFC 6376 section 3.2); white space within a value is folding."""
    name, _, value = raw[start:end].partition("=")
    return text_of("".join(name.split())).lower(), text_of("".join(value.split()))
