"""Texts with `format=flowed` (RFC 3676): soft line ends joined, stuffed blanks taken away.

Here: from the decoded text to the one its writer typed. Not here: HTML; wrapping for a screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Literal

Flow = Literal["no", "flowed", "delsp"]

_SIGNATURE = "-- "


def flow_of(form: str, delete_space: str) -> Flow:
    """How a text flows, by the parameters `format` and `delsp` of its type."""
    if form.lower() != "flowed":
        return "no"
    return "delsp" if delete_space.lower() == "yes" else "flowed"


def unflowed(text: str, flow: Flow) -> str:
    """The text with each paragraph on one line; quotes stay, and a signature line ends no paragraph softly."""
    if flow == "no" or not any(mark in text for mark in (" \n", " \r\n", "\n ")):
        return text
    kept = StringIO()  # a list would hold every line of a text of many short ones
    open_depth = -1  # of the paragraph that the last line leaves open, -1 when it is closed
    for line, line_end in _lines(text):
        depth = len(line) - len(line.lstrip(">"))
        body = line[depth:].removeprefix(" ")
        goes_on = depth == open_depth and body != _SIGNATURE
        if open_depth >= 0 and not goes_on:
            kept.write("\n")
        if not goes_on and depth:
            kept.write(">" * depth + " ")
        soft = body.endswith(" ") and body != _SIGNATURE
        open_depth = depth if soft else -1
        kept.write(body[:-1] if soft and flow == "delsp" else body)
        kept.write("" if soft else line_end)
    return kept.getvalue()


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line and its line end, which the last one may lack."""
    at, size = 0, len(text)
    while at < size:
        feed = text.find("\n", at)
        end = size if feed < 0 else feed
        line = text[at:end]
        bare = line.removesuffix("\r")
        yield bare, text[at + len(bare) : end + 1]
        at = end + 1
