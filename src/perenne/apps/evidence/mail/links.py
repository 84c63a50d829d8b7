"""Links in plain text: a scheme, what follows it, without the punctuation of the sentence.

Here: http, https and ftp links of a text, and the host of a link. Not here: HTML, where a text comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_LINK = re.compile(r"(?<![A-Za-z0-9])(?:https?|ftp)://[^\s<>\"]+", re.IGNORECASE)
_SCHEME = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
_SHOWN_HOST = re.compile(r"(?:(?:https?|ftp)://)?([A-Za-z0-9.-]+\.[A-Za-z]{2,24})(?=[/:?#\s]|\Z)", re.IGNORECASE)
_AUTHORITY_END = re.compile(r"[/?#\\]")
_TRAILING = frozenset(".,;:!?'*»”’…。，、")
_PAIRS = {")": "(", "]": "[", "}": "{"}


class Found(msgspec.Struct, frozen=True, gc=False):
    """A link of a text, from the character `start` on."""

    target: str
    start: int


def links_in(text: str) -> Iterator[Found]:
    """The links of a text in their order."""
    for raw, start in raw_links_in(text, 0, len(text)):
        target = trimmed(raw)
        if has_rest(target):
            yield Found(target, start)


def raw_links_in(text: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    """The links between two places of a text with the punctuation behind them, and where each begins."""
    return ((found.group(), found.start()) for found in _LINK.finditer(text, start, end))


def is_link(text: str) -> bool:
    """Whether a text begins with a scheme that counts, and something follows it."""
    return _SCHEME.match(text) is not None and has_rest(text)


def has_rest(target: str) -> bool:
    """Whether something follows the scheme."""
    return not target.endswith("://") and len(target.partition("://")[2]) > 0


def trimmed(target: str) -> str:
    """The link without trailing punctuation; a closing bracket stays when the link opened it."""
    surplus = {close: target.count(close) - target.count(opening) for close, opening in _PAIRS.items()}
    end = len(target)
    while end:
        last = target[end - 1]
        if last in _PAIRS and surplus[last] > 0:
            surplus[last] -= 1
        elif last not in _TRAILING:
            break
        end -= 1
    return target[:end]


def host_of(target: str) -> str:
    """The host of a link in lower case, without user and port."""
    authority = _AUTHORITY_END.split(target.partition("://")[2], maxsplit=1)[0]
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        return host.partition("]")[0][1:].lower()
    return host.partition(":")[0].rstrip(".").lower()


def shown_host(text: str) -> str | None:
    """The host that a shown text claims to lead to; None when it is words."""
    found = _SHOWN_HOST.match(text.strip()[:2_000])
    return None if found is None else found.group(1).lower()
