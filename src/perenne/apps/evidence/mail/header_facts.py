"""Facts of a header: fields, texts, people, dates, hops, recorded results, each with its place in the bytes.

Here: the types alone. Not here: how a fact is found.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ZoneState = Literal["given", "minus_zero", "absent", "malformed"]
Trust = Literal["receiver", "topmost", "claim"]


class Fact(msgspec.Struct, frozen=True, gc=False):
    """A fact of a message. Its place is `offset` and `length` in the bytes of the message's `space`."""


class Field(Fact, frozen=True, gc=False):
    """One header field as it stands: `raw` has one character a byte and lies at `value_offset`.

    `value` is unfolded and decoded (RFC 2047; raw 8-bit as UTF-8, else Windows-1252). `occurrence` counts the fields
    of one name in their header, from 1. `part` is the path of the part whose header holds it, "" for the message.
    """

    name: str
    occurrence: int
    raw: str
    value: str
    part: str
    offset: int
    length: int
    value_offset: int


class Text(Fact, frozen=True, gc=False):
    """A value of a header, decoded, beside its raw text of one character a byte at its place."""

    header: str
    occurrence: int
    value: str
    raw: str
    offset: int
    length: int


class Mailbox(Fact, frozen=True, gc=False):
    """One address of a header: decoded name and address, each possibly empty.

    `domain` is in lower case. `group` is the group it stands in. `position` counts the addresses of the field.
    """

    header: str
    occurrence: int
    position: int
    name: str
    address: str
    domain: str
    group: str
    raw: str
    offset: int
    length: int


class Date(Fact, frozen=True, gc=False):
    """A date: an instant in UTC (`2025-03-04T08:15:36Z`), or null where none may be claimed.

    `local` is the time as the writer's clock showed it. `minus_zero` gives an instant whose local zone is unknown.
    """

    header: str
    occurrence: int
    instant: str | None
    local: str | None
    zone: ZoneState
    zone_text: str
    offset_minutes: int | None
    raw: str
    offset: int
    length: int


class Hop(Fact, frozen=True):
    """One Received field; number 1 is the topmost, the last to be written. A clause that is absent is null.

    `delay_s`: seconds from the hop below to this one. `checks`: what does not fit, in words of `FindingKind`.
    """

    occurrence: int
    from_: str | None
    by: str | None
    via: str | None
    with_: str | None
    id: str | None
    for_: str | None
    date: Date | None
    domains: tuple[str, ...]
    ips: tuple[str, ...]
    delay_s: int | None
    checks: tuple[str, ...]
    raw: str
    offset: int
    length: int


class Authentication(Fact, frozen=True):
    """One recorded result; nothing was verified here.

    `trust`: `receiver` for the topmost block of results by a receiver that was named as trusted; `topmost` for the
    topmost block when no receiver was named; `claim` for everything else: the message says so itself.
    """

    header: str
    occurrence: int
    server: str
    instance: int | None
    method: str
    result: str
    properties: tuple[tuple[str, str], ...]
    trust: Trust
    raw: str
    offset: int
    length: int


class Signature(Fact, frozen=True):
    """A recorded signature (DKIM-Signature, ARC-Seal, ARC-Message-Signature), not verified."""

    header: str
    occurrence: int
    instance: int | None
    domain: str
    selector: str
    chain: str
    tags: tuple[tuple[str, str], ...]
    raw: str
    offset: int
    length: int
