"""Received fields, one hop each (RFC 5321 section 4.4): clauses, date, and whether the hops fit each other.

Here: from the fields to hops; the raw text is kept whatever happens. Not here: whether a hop is true.
"""

from __future__ import annotations

from msgspec.structs import replace

from perenne.apps.evidence.mail.charsets import text_of
from perenne.apps.evidence.mail.dates import date_of, seconds_between
from perenne.apps.evidence.mail.header_facts import Date, Field, Hop
from perenne.apps.evidence.mail.hosts import hosts_in
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.tokens import Token, tokens_of

_CLAUSES = frozenset(("from", "by", "via", "with", "id", "for"))
_LONG_GAP_S = 24 * 3600


def hops_of(fields: list[Field], notes: Notes) -> tuple[Hop, ...]:
    """The hops from the topmost field down, each compared with the one below it and with the delivery on top."""
    hops = [_hop(field, notes) for field in fields]
    delivery = next((hop.date.instant for hop in hops if hop.date and hop.date.instant), None)
    return tuple(
        _checked(hop, hops[index + 1] if index + 1 < len(hops) else None, delivery) for index, hop in enumerate(hops)
    )


def _hop(field: Field, notes: Notes) -> Hop:
    raw = field.raw
    tokens = [token for token in tokens_of(raw) if token.kind != "blank"]
    semicolon = next((token for token in reversed(tokens) if token.text == ";"), None)
    end = len(raw) if semicolon is None else semicolon.start
    clauses = _clauses(raw, tokens, end)
    found = list(hosts_in(raw, 0, end))
    domains = tuple(dict.fromkeys(host.value for host in found if host.type == "domain_name"))
    ips = tuple(dict.fromkeys(host.value for host in found if host.type == "ip_address"))
    from_, by, via, with_, id_, for_ = (clauses.get(name) for name in ("from", "by", "via", "with", "id", "for"))
    date = None if semicolon is None else _date(field, semicolon.end, notes)
    place = (field.value_offset, len(raw))
    return Hop(field.occurrence, from_, by, via, with_, id_, for_, date, domains, ips, None, (), raw, *place)


def _clauses(raw: str, tokens: list[Token], end: int) -> dict[str, str]:
    """The text of each clause up to the next one; a clause word within a comment is none, nor a second one."""
    starts: list[tuple[str, int, int]] = []
    seen: set[str] = set()
    for token in tokens:
        if token.start >= end:
            break
        word = token.text.lower()
        if token.kind == "word" and word in _CLAUSES and word not in seen:
            seen.add(word)
            starts.append((word, token.start, token.end))
    stops = [start for _, start, _ in starts[1:]] + [end] * bool(starts)
    return {
        word: " ".join(text_of(raw[after:stop]).split()) for (word, _, after), stop in zip(starts, stops, strict=True)
    }


def _date(field: Field, start: int, notes: Notes) -> Date:
    text = field.raw[start:]
    kept = text.lstrip(" \t\r\n")
    offset = field.value_offset + start + len(text) - len(kept)
    date = date_of(field.name, field.occurrence, kept, offset)
    if date.instant is None:
        notes.defect("date_malformed", field.part, offset, len(kept))
    return date


def _checked(hop: Hop, below: Hop | None, delivery: str | None) -> Hop:
    instant = hop.date.instant if hop.date else None
    if instant is None:
        return replace(hop, checks=("hop_date_absent",))
    checks = ["hop_later_than_delivery"] if delivery is not None and instant > delivery else []
    earlier = below.date.instant if below is not None and below.date is not None else None
    delay_s = None if earlier is None else seconds_between(earlier, instant)
    if delay_s is not None and delay_s < 0:
        checks.append("hop_goes_back")
    if delay_s is not None and delay_s > _LONG_GAP_S:
        checks.append("hop_long_gap")
    return replace(hop, delay_s=delay_s, checks=tuple(checks))
