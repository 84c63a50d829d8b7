"""The tree of one message, walked with a stack of our own: every part with its header, in the order of the bytes.

Here: which regions are parts, to which depth. Not here: what a part decodes to (`parts`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from perenne.apps.evidence.mail import headers, splitter
from perenne.apps.evidence.mail.headers import Header
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.space import Budget, Space
from perenne.apps.evidence.mail.splitter import Region, Split

_ONCE = ("content-type", "content-transfer-encoding", "content-disposition")
MESSAGES = frozenset({"message/rfc822", "message/global"})


class Node(msgspec.Struct, frozen=True):
    """A part: its header, the region of its body, and how it was taken apart when it is a multipart.

    `type` is the one that counts: declared, or that of its place. `children` is the number of its parts.
    """

    path: str
    parent: str
    type: str
    header: Header
    body: Region
    split: Split | None


class _Waiting(msgspec.Struct, frozen=True):
    """A region that is still to be walked, and the type of a part in this place that declares none."""

    region: Region
    path: str
    parent: str
    default: str
    depth: int


def walk(space: Space, message: str, header: Header, end: int, budget: Budget, notes: Notes) -> Iterator[Node]:
    """The parts of a message, each before its children.

    Args:
        message: the path of the message, "" for the file.
        header: its header, already read.
        end: where the message ends.
    """
    budget.parts -= 1
    node = _node(space, message, "", header, Region(header.body, end), "text/plain", 1, budget, notes)
    yield node if node.split else msgspec.structs.replace(node, path=below(message, 1), parent=message)
    stack = _waiting(node, 1)
    while stack:
        waiting = stack.pop()
        found = headers.read(space.data, space.lines, waiting.region, waiting.path, notes)
        body = Region(found.body, waiting.region.end)
        node = _node(
            space, waiting.path, waiting.parent, found, body, waiting.default, waiting.depth + 1, budget, notes
        )
        yield node
        stack += _waiting(node, waiting.depth + 1)


def below(path: str, number: int | str) -> str:
    """The path of a part below another."""
    return f"{path}.{number}" if path else str(number)


def _waiting(node: Node, depth: int) -> list[_Waiting]:
    """The children of a node, the last one first, as a stack takes them."""
    if node.split is None:
        return []
    default = "message/rfc822" if node.type == "multipart/digest" else "text/plain"
    return [
        _Waiting(region, below(node.path, number), node.path, default, depth)
        for number, region in reversed(list(enumerate(node.split.parts, 1)))
    ]


def _node(
    space: Space,
    path: str,
    parent: str,
    header: Header,
    body: Region,
    default: str,
    depth: int,
    budget: Budget,
    notes: Notes,
) -> Node:
    _note_repeated(header, path, notes)
    kind = _type(header, default, path, notes)
    split = _split(space, path, header, body, depth, budget, notes) if kind.startswith("multipart/") else None
    return Node(path, parent, kind, header, body, split)


def _note_repeated(header: Header, path: str, notes: Notes) -> None:
    """The first field of a name is the one that counts; readers disagree on it."""
    for name in _ONCE:
        same = header.all(name)
        if len(same) > 1:
            notes.defect("field_repeated", path, same[1].offset, same[1].length)


def _type(header: Header, default: str, path: str, notes: Notes) -> str:
    declared = header.first("content-type")
    if declared is None:
        return default
    if not header.media.type:
        notes.defect("type_malformed", path, declared.offset, declared.length)
    return header.media.type or default


def _split(
    space: Space, path: str, header: Header, body: Region, depth: int, budget: Budget, notes: Notes
) -> Split | None:
    """The multipart taken apart, None when it has no parts that may be read."""
    boundary, place = header.media.boundary.encode("latin-1"), (path, body.start, body.end - body.start)
    if not boundary:
        notes.defect("boundary_missing", *place)
        return None
    if depth > notes.limits.depth:
        notes.hit("depth", path)
        return None
    found = splitter.split(space.lines, boundary, body, budget.parts)
    budget.parts -= len(found.parts)
    if found.cut:
        notes.hit("parts", path)
    _note(found, place, notes)
    glued = -1 if found.closed or not found.parts else splitter.glued_close(space.lines, boundary, found.parts[-1])
    if glued >= 0:
        notes.defect("boundary_glued", path, glued, len(boundary) + 4)
    return found if found.parts else None


def _note(found: Split, place: tuple[str, int, int], notes: Notes) -> None:
    if not found.parts and not found.cut:
        notes.defect("multipart_without_parts", *place)
    elif not found.closed:
        notes.defect("multipart_unclosed", *place)
    if found.late is not None:
        notes.defect("boundary_after_close", place[0], found.late, 0)
