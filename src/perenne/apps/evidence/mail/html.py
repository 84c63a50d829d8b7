"""Links in HTML: attributes, and the text a reader sees; read once from left to right, never failing.

Here: tags, attributes, entities. Not here: what a link means; nothing is laid out and no style is followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5

import msgspec

from perenne.apps.evidence.mail.links import has_rest, is_link, raw_links_in, trimmed

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_ATTRIBUTE = re.compile(r"[\s/]*([^\s=>/]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|[\"']?([^\s>]*)))?")
_ENTITY = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}))(;?)")
_ATTRIBUTES = frozenset({"href", "src", "action", "background", "cite"})
_SILENT = {name: re.compile(rf"</{name}", re.IGNORECASE) for name in ("script", "style")}
_NO_LINK = re.compile(r"[\s<>\"]")
_LIMIT_SHOWN = 1_000


class HtmlLink(msgspec.Struct, frozen=True):
    """A link: the attribute it stands in or `visible`, its target and raw text, and what an `<a>` around it shows."""

    place: str
    target: str
    raw: str
    start: int
    shown: str | None


def links_of(page: str) -> Iterator[HtmlLink]:
    """The links of a page in the order of their tags and texts; that of an `<a>` comes where its text ends."""
    anchor: HtmlLink | None = None
    shown: list[str] = []
    for piece in _pieces(page):
        if isinstance(piece, _Words):
            if anchor is not None:
                shown.append(unescaped(page[piece.start : piece.end]))
            yield from _visible(page, piece)
            continue
        if piece.name == "a" and anchor is not None:
            yield _showing(anchor, shown)
            anchor = None
        for link in () if piece.closing else piece.links:
            if piece.name == "a" and link.place == "href" and anchor is None:
                anchor, shown = link, []
            else:
                yield link
    if anchor is not None:
        yield _showing(anchor, shown)


def unescaped(text: str, *, attribute: bool = False) -> str:
    """The text with its entities as characters; in an attribute `&copy=` is no entity (HTML 13.2.5.72)."""
    if "&" not in text:
        return text
    if not attribute:
        return _ENTITY.sub(_character, text)
    return _ENTITY.sub(lambda found: found.group() if _goes_on(text, found) else _character(found), text)


class _Words(msgspec.Struct, frozen=True, gc=False):
    start: int
    end: int


class _Tag(msgspec.Struct, frozen=True):
    name: str
    closing: bool
    links: list[HtmlLink]


def _pieces(page: str) -> Iterator[_Words | _Tag]:
    """The tags and the texts between them; comments, scripts and styles are left out."""
    at, size = 0, len(page)
    while at < size:
        opening = page.find("<", at)
        if opening != at:
            yield _Words(at, size if opening < 0 else opening)
            if opening < 0:
                return
        tag = _TAG.match(page, opening)
        if tag is not None:
            links, at = _attributes(page, tag.end())
            name = tag.group(2).lower()
            yield _Tag(name, bool(tag.group(1)), links)
            if name in _SILENT and not tag.group(1):
                close = _SILENT[name].search(page, at)
                at = size if close is None else close.start()
        elif page.startswith("<!--", opening):
            close_at = page.find("-->", opening + 4)
            at = size if close_at < 0 else close_at + 3
        elif page.startswith(("<!", "<?", "</"), opening):
            close_at = page.find(">", opening)
            at = size if close_at < 0 else close_at + 1
        else:
            at = opening + 1


def _attributes(page: str, at: int) -> tuple[list[HtmlLink], int]:
    """The links in the attributes of a tag, and where the tag ends."""
    links: list[HtmlLink] = []
    while (found := _ATTRIBUTE.match(page, at)) is not None:
        at = found.end()
        group = found.lastindex or 1
        if group > 1 and found.group(1).lower() in _ATTRIBUTES:
            raw = found.group(group)
            target = "".join(unescaped(raw, attribute=True).split())
            if is_link(target):
                links.append(HtmlLink(found.group(1).lower(), target, raw, found.start(group), None))
    close = page.find(">", at)
    return links, len(page) if close < 0 else close + 1


def _visible(page: str, words: _Words) -> Iterator[HtmlLink]:
    """The links of a text; their raw text holds the entities, their target the characters."""
    for raw, start in raw_links_in(page, words.start, words.end):
        written = raw if "&" not in raw else _NO_LINK.split(unescaped(raw), maxsplit=1)[0]
        target = trimmed(written)
        if has_rest(target):
            yield HtmlLink("visible", target, raw[: len(target)] if written is raw else raw, start, None)


def _showing(anchor: HtmlLink, shown: list[str]) -> HtmlLink:
    text = " ".join("".join(shown).split())[:_LIMIT_SHOWN]
    return msgspec.structs.replace(anchor, shown=text)


def _goes_on(text: str, found: re.Match[str]) -> bool:
    following = text[found.end() : found.end() + 1]
    return found.group(3) is not None and not found.group(4) and (following == "=" or following.isalnum())


def _character(found: re.Match[str]) -> str:
    decimal, hexadecimal, name, semicolon = found.groups()
    if name is not None:
        return html5.get(name + semicolon) or (html5.get(name, "") + semicolon if name in html5 else found.group())
    number = int(decimal) if decimal is not None else int(hexadecimal, 16)
    if number == 0 or number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        return "\ufffd"
    return chr(number)
