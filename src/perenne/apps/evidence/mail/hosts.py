"""Host names and IP addresses that stand in a text, and when two domains are one organisation's.

Nothing is looked up. Not here: addresses of people, links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Literal

import msgspec

_WORD = re.compile(r"[A-Za-z0-9_.:%-]+")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_MOST_CHARACTERS = 253
_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "go", "gob", "gouv", "gov", "ne", "net", "or", "org"})


class Host(msgspec.Struct, frozen=True, gc=False):
    """A host as it stands (`raw`, from `start`), and its canonical form."""

    type: Literal["domain_name", "ip_address"]
    raw: str
    value: str
    start: int


def hosts_in(text: str, start: int, end: int) -> Iterator[Host]:
    """The hosts between two places of a text, without those that are part of an address of a person."""
    for word in _WORD.finditer(text, start, end):
        raw = word.group()
        if "." not in raw and ":" not in raw:
            continue
        before, after = word.start(), word.end()
        if (before and text[before - 1] == "@") or text[after : after + 1] == "@":
            continue
        found = host_of(raw.strip(".-"), before + len(raw) - len(raw.lstrip(".-")))
        if found is not None:
            yield found


def host_of(raw: str, start: int = 0) -> Host | None:
    """The host that a word is: an IP address, or a domain of two or more labels."""
    bare = raw[5:] if raw[:5].lower() == "ipv6:" else raw
    if bare[-1:].isdigit() or ":" in bare:
        address = canonical_ip(bare.partition("%")[0])
        if address is not None:
            return Host("ip_address", raw, address, start)
    return Host("domain_name", raw, raw.lower(), start) if is_domain(raw) else None


def canonical_ip(text: str) -> str | None:
    """The canonical form of an IP address (RFC 5952); leading zeros are refused, because readers disagree on them."""
    if len(text) > 45:
        return None
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def is_domain(text: str) -> bool:
    """Whether a text is a domain of two or more labels, the last one not a number."""
    if len(text) > _MOST_CHARACTERS or ":" in text or "%" in text:
        return False
    labels = text.split(".")
    if len(labels) < 2 or len(labels[-1]) < 2 or labels[-1].isdigit():
        return False
    return all(_LABEL.fullmatch(label) for label in labels)


def aligned(one: str, other: str) -> bool:
    """Whether two domains may be one organisation's: equal, one below the other, or below one registered name.

    Where names are registered is guessed from the labels (`co.uk`), because no list of suffixes is kept here.
    """
    return registered(one) == registered(other)


def registered(domain: str) -> str:
    """The last two labels of a domain, or three when the second looks like a suffix of a country."""
    labels = domain.lower().rstrip(".").split(".")
    long = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3:] if long else labels[-2:])
