"""From header fields to observations: which headers count, in which order, under which role and number.

Not here: how a value is found in a text (`addresses`), and how many observations are too many (`analyser`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perenne.apps.evidence.findings import Observation
from perenne.apps.evidence.mail_headers import addresses
from perenne.apps.evidence.mail_headers.header_block import Field

ADDRESS_HEADERS: tuple[tuple[str, str], ...] = (
    ("from", "from"),
    ("sender", "sender"),
    ("reply-to", "reply_to"),
    ("return-path", "return_path"),
    ("to", "to"),
    ("cc", "cc"),
    ("bcc", "bcc"),
)


def observations_of(fields: Sequence[Field]) -> Iterator[Observation]:
    """The observations of a header, lazily and in the order of L:A-3.

    Guarantees: no two share type, normalised value, role, header and occurrence.
    """
    for header, role in ADDRESS_HEADERS:
        yield from _of_addresses(_values(fields, header), header, role)
    yield from _of_message_id(_values(fields, "message-id"))
    yield from _of_received(_values(fields, "received"))


def _values(fields: Sequence[Field], name: str) -> list[str]:
    return [field.value for field in fields if field.name == name]


def _of_addresses(values: list[str], header: str, role: str) -> Iterator[Observation]:
    """Each address and its domain, both under the running number of the address within the header's name."""
    found = (address for value in values for address in addresses.addresses_in(value))
    for occurrence, address in enumerate(found, start=1):
        yield _observation("email_address", address.raw, address.raw.lower(), role, header, occurrence)
        yield _observation("domain_name", address.domain, address.domain.lower(), role, header, occurrence)


def _of_message_id(values: list[str]) -> Iterator[Observation]:
    domain = addresses.domain_after_at(values[0]) if values else None
    if domain is not None:
        yield _observation("domain_name", domain, domain.lower(), "message_id_domain", "message-id", 1)


def _of_received(values: list[str]) -> Iterator[Observation]:
    numbers = _Numbers()
    for index, value in enumerate(values, start=1):
        for ipv4 in addresses.ipv4_in(value):
            yield _of_hop("ip_address", ipv4.raw, ipv4.canonical, numbers.next("ip_address", ipv4.canonical, index))
        for host in addresses.hosts_in(value):
            yield _of_hop("domain_name", host, host.lower(), numbers.next("domain_name", host.lower(), index))
    for index, value in enumerate(values, start=1):
        for ipv6 in addresses.ipv6_in(value):
            yield _of_hop("ip_address", ipv6.raw, ipv6.canonical, numbers.next("ip_address", ipv6.canonical, index))


class _Numbers:
    """Occurrence numbers of the values in Received headers (L:A-4, T-17).

    A value gets the index of its header, or the next number after its last one when that is taken.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}

    def next(self, type_: str, normalised: str, header_index: int) -> int:
        number = max(header_index, self._last.get((type_, normalised), 0) + 1)
        self._last[type_, normalised] = number
        return number


def _of_hop(type_: str, raw: str, normalised: str, occurrence: int) -> Observation:
    return _observation(type_, raw, normalised, "smtp_relay", "received", occurrence)


def _observation(type_: str, raw: str, normalised: str, role: str, header: str, occurrence: int) -> Observation:
    return Observation(type_, raw, normalised, role, header, occurrence, "header")
