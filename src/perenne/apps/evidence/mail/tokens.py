"""The small grammar that structured fields share: quoted strings, comments, white space (RFC 5322 section 3.2).

Here: from a raw value to its tokens, each where it stands. Not here: what a field means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

# What is not closed reaches the end: a second look at the same text would take quadratic time.
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<quoted>"(?:[^"\\]|\\.)*"?)
    |(?P<comment>\()
    |(?P<literal>\[[^\[\]\s,;<>"()]*\]?)
    |(?P<special>[<>,;:])
    |(?P<word>[^ \t\r\n"(\[<>,;:]+)""",
    re.VERBOSE | re.DOTALL,
)
_IN_COMMENT = re.compile(r"[()]|\\.", re.DOTALL)
_PAIR = re.compile(r"\\(.)", re.DOTALL)

TokenKind = Literal["blank", "quoted", "comment", "literal", "special", "word"]


class Token(msgspec.Struct, frozen=True, gc=False):
    """A token from `start` to before `end` of the raw value; `text` is its raw text."""

    kind: str
    text: str
    start: int
    end: int


def tokens_of(raw: str, start: int = 0) -> Iterator[Token]:
    """The tokens of a raw value; together they are the whole value."""
    at, end = start, len(raw)
    while at < end:
        found = _TOKEN.match(raw, at)
        if found is None:
            return
        kind = found.lastgroup or "word"
        stop = comment_end(raw, at) if kind == "comment" else found.end()
        yield Token(kind, raw[at:stop], at, stop)
        at = stop


def comment_end(raw: str, at: int) -> int:
    """Where the comment that opens at `at` ends, comments within it included."""
    depth = 0
    for mark in _IN_COMMENT.finditer(raw, at):
        if mark.group() == "(":
            depth += 1
        elif mark.group() == ")":
            depth -= 1
            if not depth:
                return mark.end()
    return len(raw)


def unquoted(text: str) -> str:
    """What a quoted string or a comment holds."""
    closed = len(text) > 1 and text[-1] in '")'
    inner = text[1:-1] if closed else text[1:]
    return _PAIR.sub(r"\1", inner) if "\\" in inner else inner


def without_comments(raw: str) -> str:
    """The value with each comment replaced by blanks, so that every place stays the same."""
    if "(" not in raw:
        return raw
    return "".join(
        " " * (token.end - token.start) if token.kind == "comment" else token.text for token in tokens_of(raw)
    )
