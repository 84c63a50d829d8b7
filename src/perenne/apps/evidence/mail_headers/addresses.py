"""Addresses, host names and IP addresses that stand literally in a text.

Every reader walks the text once with one character class, so time is linear; what looks cut off is left out.
Not here: encoded words, quoted local parts, internationalised addresses; which header the text came from.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

import msgspec

# Letters outside ASCII and combining accents are part of a word, so that no address is cut at one of them.
_WORD = r"\w\u0300-\u036f"
_ADDRESS_WORD = re.compile(rf"[{_WORD}.!#$%&'*+/=?^`{{|}}~@-]+")
_HOST_WORD = re.compile(rf"[{_WORD}.-]+")
_IPV6_WORD = re.compile(rf"[{_WORD}.:%-]+")
_DOMAIN_START = re.compile(rf"[{_WORD}.-]*")

_LABEL_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
_MAX_ADDRESS = 320
_MAX_DOMAIN = 253
_MAX_LABEL = 63
_MAX_IPV6 = 45


class Address(msgspec.Struct, frozen=True):
    """An address as it stands, and its domain as it stands."""

    raw: str
    domain: str


class Match(msgspec.Struct, frozen=True):
    """An IP address as it stands and in its canonical form."""

    raw: str
    canonical: str


def addresses_in(text: str) -> Iterator[Address]:
    """The addresses of a text in order; two joined by `@` (`a@b.test@c.test`) are none, rather than a guess."""
    for word in _ADDRESS_WORD.finditer(text):
        if "@" in word.group():
            yield from _addresses_of_word(word.group())


def hosts_in(text: str) -> Iterator[str]:
    """The domain names of a text in order, without those that are part of an address."""
    for word in _ADDRESS_WORD.finditer(text):
        if "@" not in word.group():
            yield from filter(is_domain, _host_words(word.group()))


def ipv4_in(text: str) -> Iterator[Match]:
    """The IPv4 addresses of a text in order; leading zeros are refused, because readers disagree on them."""
    for word in _ADDRESS_WORD.finditer(text):
        # qmail writes the sender's address as `(name@192.0.2.1)`; before an `@` digits and dots are a name.
        for host in _host_words(word.group().rpartition("@")[2]):
            if host.count(".") == 3 and (canonical := _canonical_ipv4(host)):
                yield Match(host, canonical)


def ipv6_in(text: str) -> Iterator[Match]:
    """The IPv6 addresses of a text in order, canonical by RFC 5952; `IPv6:` before and a zone after are dropped."""
    for word in _IPV6_WORD.finditer(text):
        raw = _bare_ipv6(word.group())
        if len(raw) > _MAX_IPV6 or not ("::" in raw or raw.count(":") >= 6):
            continue
        if canonical := _canonical_ipv6(raw):
            yield Match(raw, canonical)


def domain_after_at(text: str) -> str | None:
    """The domain after the last `@` of a message id, looked for between `<` and `>` when both stand there."""
    inside = text.partition("<")[2].partition(">")
    identifier = inside[0] if inside[1] else text
    _, at, right = identifier.rpartition("@")
    domain = _leading_domain(right)
    return domain if at and is_domain(domain) else None


def is_domain(text: str) -> bool:
    """Whether a text is a domain: two or more legal labels, the last with two characters and a letter (L:A-5)."""
    labels = text.split(".") if len(text) <= _MAX_DOMAIN else []
    if len(labels) < 2 or not all(_is_label(label) for label in labels):
        return False
    return len(labels[-1]) >= 2 and not labels[-1].replace("-", "").isdigit()


def _is_label(label: str) -> bool:
    return 0 < len(label) <= _MAX_LABEL and label[0] != "-" and label[-1] != "-" and _LABEL_CHARACTERS.issuperset(label)


def _addresses_of_word(word: str) -> Iterator[Address]:
    local, *rights = word.split("@")
    for position, right in enumerate(rights, start=1):
        whole = _domain_start(right)
        rest = right[len(whole) :]
        joined = not rest and position < len(rights)
        address = None if joined else _address(_unwrapped(local, rest), _trimmed(whole))
        if address is not None:
            yield address
        local = rest[1:]


def _address(local: str, domain: str) -> Address | None:
    raw = f"{local}@{domain}"
    legal = local.isascii() and not local.startswith(".") and len(raw) <= _MAX_ADDRESS
    return Address(raw, domain) if local and legal and is_domain(domain) else None


def _unwrapped(local: str, rest: str) -> str:
    """The local part without the mark that stands on both sides of an address, as in `'alice@example.test'`."""
    return local[1:] if rest and local.startswith(rest[0]) else local


def _domain_start(text: str) -> str:
    start = _DOMAIN_START.match(text)
    return start.group() if start else ""


def _trimmed(text: str) -> str:
    return text.rstrip(".-")


def _leading_domain(text: str) -> str:
    return _trimmed(_domain_start(text))


def _host_words(word: str) -> Iterator[str]:
    return (host.group().strip(".-") for host in _HOST_WORD.finditer(word))


def _bare_ipv6(word: str) -> str:
    raw = word[5:] if word[:5].lower() == "ipv6:" else word
    raw = raw.partition("%")[0].rstrip(".-")
    return raw[:-1] if raw.endswith(":") and not raw.endswith("::") else raw


def _canonical_ipv4(text: str) -> str | None:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        return None


def _canonical_ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    # Python writes IPv4-mapped addresses differently from 3.13 on; RFC 5952 section 5 settles it.
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped is not None else str(address)
