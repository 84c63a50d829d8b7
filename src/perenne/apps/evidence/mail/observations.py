"""Proposals that follow from the facts of a message: addresses, domains, IP addresses.

They prove neither sender nor origin; a person confirms or rejects them. Not here: how they are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from perenne.apps.evidence.mail.header_facts import Hop, Mailbox, Text
from perenne.apps.evidence.mail.hosts import host_of, hosts_in, is_domain
from perenne.apps.evidence.mail.notices import Observation
from perenne.apps.evidence.mail.part_facts import Link

_BODY = "body"

_Type = Literal["email_address", "domain_name", "ip_address"]
_Key = tuple[_Type, str, str, str, str]  # type, value, role, header, path of the message or part


class Numbering:
    """Counts the proposals of one value in one role and header, so that no two are the same."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str, str], int] = {}

    def next(self, type_: str, value: str, role: str, header: str) -> int:
        """The number of the next such proposal, from 1."""
        key = (type_, value, role, header)
        self._counts[key] = number = self._counts.get(key, 0) + 1
        return number


def of_mailboxes(mailboxes: Iterable[Mailbox], path: str, numbers: Numbering) -> Iterator[Observation]:
    """Each address, and its domain when it is one."""
    for one in mailboxes:
        if not one.domain or not one.address:
            continue
        role, value = one.header.replace("-", "_"), one.address.lower()
        yield _within(one.raw, one.offset, one.address, ("email_address", value, role, one.header, path), numbers)
        if is_domain(one.domain):
            written = one.address.rpartition("@")[2]
            yield _within(one.raw, one.offset, written, ("domain_name", one.domain, role, one.header, path), numbers)


def of_message_id(found: Text | None, path: str, numbers: Numbering) -> Iterator[Observation]:
    """The domain of the message id."""
    domain = "" if found is None else found.value.strip("<> ").rpartition("@")[2]
    if found is not None and is_domain(domain):
        key: _Key = ("domain_name", domain.lower(), "message_id_domain", found.header, path)
        yield _within(found.raw, found.offset, domain, key, numbers)


def of_hops(hops: Iterable[Hop], path: str, numbers: Numbering) -> Iterator[Observation]:
    """The hosts of each hop, at their own places."""
    for hop in hops:
        end = hop.raw.rfind(";")
        for host in hosts_in(hop.raw, 0, len(hop.raw) if end < 0 else end):
            key: _Key = (host.type, host.value, "smtp_relay", "received", path)
            yield _proposal(key, host.raw, (True, hop.offset + host.start, len(host.raw)), numbers)


def of_links(links: Iterable[Link], numbers: Numbering) -> Iterator[Observation]:
    """The hosts that the links of the texts lead to."""
    for link in links:
        host = host_of(link.host) if link.host else None
        if host is None:
            continue
        key: _Key = (host.type, host.value, "link", _BODY, link.path)
        at = link.raw.lower().find(host.raw) if link.exact else -1
        if at < 0:
            yield _proposal(key, host.raw, (False, link.offset, link.length), numbers)
        else:
            raw = link.raw[at : at + len(host.raw)]
            yield _proposal(key, raw, (True, link.offset + at, len(raw)), numbers)


def _within(raw: str, offset: int, written: str, key: _Key, numbers: Numbering) -> Observation:
    """A proposal at the place where it stands in a raw text; where it does not literally, that whole text is it."""
    at = raw.rfind(written) if written.isascii() else -1
    if at < 0:
        return _proposal(key, raw, (True, offset, len(raw)), numbers)
    return _proposal(key, written, (True, offset + at, len(written)), numbers)


def _proposal(key: _Key, raw: str, place: tuple[bool, int, int], numbers: Numbering) -> Observation:
    type_, value, role, header, path = key
    number = numbers.next(type_, value, role, header)
    return Observation(type_, raw, value, role, header, number, path, *place)
