"""Writes SVG: elements as text, equal for equal values, with every character escaped that could end one.

What does not live here: what is drawn (`pictures`).
"""

from __future__ import annotations

from collections.abc import Iterable

Value = str | int | float

FONT = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"
LETTER = 7.25  # columns of 12 px text in such a font are this wide, or less


def element(tag: str, *inside: str, **attributes: Value) -> str:
    """One element. Args: inside: elements, or text that was `escaped`. attributes: `stroke_width` is `stroke-width`."""
    said = "".join(f' {name.strip("_").replace("_", "-")}="{_value(value)}"' for name, value in attributes.items())
    return f"<{tag}{said}>{''.join(inside)}</{tag}>" if inside else f"<{tag}{said}/>"


def text(x: float, y: float, words: str, **attributes: Value) -> str:
    """Words at their base line."""
    return element("text", escaped(words), x=x, y=y, **attributes)


def titled(title: str, *inside: str, **attributes: Value) -> str:
    """Elements that belong together, with what a pointer over them is told."""
    return element("g", element("title", escaped(title)), *inside, **attributes)


def document(width: float, height: float, title: str, inside: Iterable[str]) -> str:
    """A whole file, readable on light and dark ground."""
    body = "\n".join(
        (element("title", escaped(title)), element("rect", width=width, height=height, fill="#ffffff"), *inside)
    )
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_value(width)} {_value(height)}" role="img"'
    size = f'width="{_value(width)}" height="{_value(height)}"'
    return f'<svg {head} {size} font-family="{FONT}" font-size="12">\n{body}\n</svg>\n'


def escaped(words: str) -> str:
    """The words as the content of an element or of an attribute; what XML cannot hold is shown as such."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in words)
    for letter, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        shown = shown.replace(letter, name)
    return shown


def _value(value: Value) -> str:
    """A number in at most two places after the point, so that every machine writes the same."""
    if isinstance(value, str):
        return escaped(value)
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
