"""One message: its header facts, its parts, its texts, put together.

Here: the order in which facts are gathered. Not here: how a fact is found; which messages there are (`analysis`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator

import msgspec

from perenne.apps.evidence.mail import findings, headers, observations, parts, texts, tree
from perenne.apps.evidence.mail.addresses import mailboxes_of
from perenne.apps.evidence.mail.artefact import Message
from perenne.apps.evidence.mail.authentication import results_of, signatures_of
from perenne.apps.evidence.mail.charsets import text_of
from perenne.apps.evidence.mail.dates import date_of
from perenne.apps.evidence.mail.flowed import Flow
from perenne.apps.evidence.mail.guard import guarded
from perenne.apps.evidence.mail.header_facts import Authentication, Date, Field, Hop, Mailbox, Text
from perenne.apps.evidence.mail.headers import Header
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.notices import Finding, Observation
from perenne.apps.evidence.mail.parameters import NO_TYPE
from perenne.apps.evidence.mail.part_facts import Attachment, Body, Link, Part, Uuencoded
from perenne.apps.evidence.mail.parts import Held
from perenne.apps.evidence.mail.received import hops_of
from perenne.apps.evidence.mail.space import Budget, Space
from perenne.apps.evidence.mail.splitter import Region

PEOPLE = ("from", "to", "cc", "bcc", "reply-to", "return-path", "sender")
_ID = re.compile(r"<[^<>]*>")


class Place(msgspec.Struct, frozen=True):
    """Where a message lies: its region in a space, its path, the part that carries it, and how deep it is nested."""

    space: Space
    region: Region
    path: str
    carrier: str | None
    nesting: int


class Nested(msgspec.Struct, frozen=True):
    """A part that is a message and its decoded bytes."""

    held: Held
    coded: bool


def read(place: Place, budget: Budget, notes: Notes, trusted: Collection[str]) -> tuple[Message, list[Nested]]:
    """A message, and the messages that its parts are."""
    space, region, path = place.space, place.region, place.path
    notes.space = space.path
    none = Header((), {}, NO_TYPE, region.start, region.start, region.start)
    header = guarded(notes, path, none, headers.read, space.data, space.lines, region, path, notes)
    tree_read = guarded(notes, path, _Tree([], [], {}), _parts, place, header, budget, notes)
    held = tree_read.held
    gathered = _Texts(tree_read, budget, notes)
    people = {name: guarded(notes, path, (), _people, header, name, budget, notes) for name in PEOPLE}
    hops = guarded(notes, path, (), hops_of, header.all("received"), notes)
    date = guarded(notes, path, None, _date, header, notes)
    results = guarded(notes, path, (), results_of, header, trusted)
    attachments = [parts.attachment_of(one.part) for one in held if one.part.attachment]
    subjects = tuple(_text(field) for field in header.all("subject"))
    message_id = next((_identifier(field) for field in header.all("message-id")), None)
    facts = _Facts(header, path, people, message_id, hops, date, results, attachments, gathered.links)
    found = Message(
        path=path,
        carrier=place.carrier,
        space=space.path,
        offset=region.start,
        length=region.end - region.start,
        sha256=hashlib.sha256(memoryview(space.data)[region.start : region.end]).hexdigest(),
        line_ends=space.ends,
        header_offset=header.start,
        header_length=header.end - header.start,
        fields=(*header.fields, *tree_read.fields),
        subject=subjects[0] if subjects else None,
        subjects=subjects,
        from_=people["from"],
        to=people["to"],
        cc=people["cc"],
        bcc=people["bcc"],
        reply_to=people["reply-to"],
        return_path=people["return-path"],
        sender=people["sender"],
        message_id=message_id,
        in_reply_to=tuple(_identifiers(header.all("in-reply-to"))),
        references=tuple(_identifiers(header.all("references"))),
        date=date,
        hops=hops,
        authentication=results,
        signatures=guarded(notes, path, (), signatures_of, header),
        parts=tuple(one.part for one in held),
        attachments=tuple(attachments),
        bodies=tuple(gathered.bodies),
        uuencoded=tuple(gathered.uuencoded),
        links=tuple(gathered.links),
        observations=guarded(notes, path, (), _observations, facts),
        findings=guarded(notes, path, (), _findings, facts),
    )
    nested = [Nested(one, one.part.coding != "identity") for one in held if one.part.message is not None]
    return found, nested


class _Tree(msgspec.Struct, frozen=True):
    """The parts in their order, the fields of their own headers, and how texts flow."""

    held: list[Held]
    fields: list[Field]
    flows: dict[str, Flow]


class _Facts(msgspec.Struct, frozen=True):
    """What proposals and findings are made from."""

    header: Header
    path: str
    people: dict[str, tuple[Mailbox, ...]]
    message_id: Text | None
    hops: tuple[Hop, ...]
    date: Date | None
    results: tuple[Authentication, ...]
    attachments: list[Attachment]
    links: list[Link]


class _Texts:
    """The texts of a message, in the order of its parts."""

    def __init__(self, found: _Tree, budget: Budget, notes: Notes) -> None:
        self.bodies: list[Body] = []
        self.links: list[Link] = []
        self.uuencoded: list[Uuencoded] = []
        for one in found.held:
            if one.content is not None and one.part.message is None and not one.part.attachment:
                flow = found.flows[one.part.path]
                guarded(notes, one.part.path, None, self._read, one.part, one.content, flow, budget, notes)

    def _read(self, part: Part, content: bytes, flow: Flow, budget: Budget, notes: Notes) -> None:
        body = texts.body_of(part, content, flow, budget, notes)
        self.bodies.append(body)
        self.links += texts.links_of(part, body, content, len(self.links) + 1, budget, notes)
        self.uuencoded += texts.uuencoded_of(part, content, notes)


def _parts(place: Place, header: Header, budget: Budget, notes: Notes) -> _Tree:
    found = _Tree([], [], {})
    enter = place.nesting < notes.limits.nested_messages
    for node in tree.walk(place.space, place.path, header, place.region.end, budget, notes):
        if node.type in tree.MESSAGES and not enter and notes.limits.nested_messages:
            notes.hit("nested_messages", node.path)
        found.held.append(parts.part_of(place.space, node, enter, budget, notes))
        found.flows[node.path] = node.header.media.flow
        if node.header is not header:
            found.fields.extend(node.header.fields)
    return found


def _people(header: Header, name: str, budget: Budget, notes: Notes) -> tuple[Mailbox, ...]:
    found: list[Mailbox] = []
    for field in header.all(name):
        more = mailboxes_of(field, budget.addresses, notes)
        budget.addresses -= len(more)
        found += more
    return tuple(found)


def _date(header: Header, notes: Notes) -> Date | None:
    field = header.first("date")
    if field is None:
        return None
    date = date_of("date", 1, field.raw, field.value_offset)
    if date.instant is None:
        notes.defect("date_malformed", field.part, field.offset, field.length)
    return date


def _text(field: Field) -> Text:
    return Text(field.name, field.occurrence, field.value, field.raw, field.value_offset, len(field.raw))


def _identifier(field: Field) -> Text:
    """The message id: what stands in the first angle brackets, else the text as it is."""
    found = _ID.search(field.raw)
    value = text_of(found.group()) if found else field.value
    return Text(field.name, field.occurrence, value, field.raw, field.value_offset, len(field.raw))


def _identifiers(fields: list[Field]) -> Iterator[Text]:
    for field in fields:
        found = list(_ID.finditer(field.raw))
        for one in found:
            place = (field.value_offset + one.start(), len(one.group()))
            yield Text(field.name, field.occurrence, text_of(one.group()), one.group(), *place)
        if not found and field.raw:
            yield _text(field)


def _observations(facts: _Facts) -> tuple[Observation, ...]:
    numbers, path = observations.Numbering(), facts.path
    return (
        *(one for name in PEOPLE for one in observations.of_mailboxes(facts.people[name], path, numbers)),
        *observations.of_message_id(facts.message_id, path, numbers),
        *observations.of_hops(facts.hops, path, numbers),
        *observations.of_links(facts.links, numbers),
    )


def _findings(facts: _Facts) -> tuple[Finding, ...]:
    path = facts.path
    return (
        *findings.of_header(facts.header, path),
        *findings.of_people(facts.people, path),
        *findings.of_road(facts.hops, facts.date, path),
        *findings.of_results(facts.results, path),
        *findings.of_links(facts.links),
        *findings.of_attachments(facts.attachments),
    )
