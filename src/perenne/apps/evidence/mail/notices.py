"""What an analysis says about its facts: proposals, findings, defects, bounds that were hit.

Here: the types alone. Not here: who notices what.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from perenne.apps.evidence.mail.defects import DefectKind, FindingKind, LimitName
from perenne.apps.evidence.mail.header_facts import Fact


class Observation(Fact, frozen=True, gc=False):
    """A proposal: an address, a domain or an IP address that stands in the mail; it proves nothing.

    `exact`: `raw` lies at offset and length; else they are those of the link's part.
    """

    type: Literal["email_address", "domain_name", "ip_address"]
    raw: str
    value: str
    role: str
    header: str
    occurrence: int
    path: str
    exact: bool
    offset: int
    length: int


class Finding(Fact, frozen=True, gc=False):
    """What a person should look at; `detail` names the values that do not fit."""

    kind: FindingKind
    detail: str
    path: str
    offset: int
    length: int


class Defect(Fact, frozen=True, gc=False):
    """Where the mail breaks a rule, or could be read in two ways; it never removes another fact.

    `space` is that of the message, see `Message`. `path` is the path of the part, "" for the message.
    """

    kind: DefectKind
    space: str
    path: str
    offset: int
    length: int


class LimitHit(msgspec.Struct, frozen=True, gc=False):
    """A bound of `Limits` that left something out, and the part or message where it did first."""

    name: LimitName
    limit: int
    path: str
