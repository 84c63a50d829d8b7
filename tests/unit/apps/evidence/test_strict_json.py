"""Strict JSON: what is refused, and how values become text again."""

from __future__ import annotations

import pytest

from perenne.apps.evidence import strict_json
from perenne.errors import InvalidInput


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[1,]", b"NaN", b"[Infinity]", b'"\x01"', b"\xef\xbb\xbf1", b'{"a":1,"a":2}', b"1 2", b'"\\ud800"'],
)
def test_what_is_not_strict_is_refused(data: bytes) -> None:
    """Loose JSON of any kind is refused with a sentence, never with a bare error."""
    with pytest.raises(InvalidInput, match="JSON"):
        strict_json.read(data, max_depth=16)


@pytest.mark.parametrize("depth", [1, 2, 16])
def test_depth_is_bounded_exactly(depth: int) -> None:
    """Arrays and objects may stand inside each other as deep as asked, and no deeper."""
    fits = b"[" * depth + b"1" + b"]" * depth
    strict_json.read(fits, max_depth=depth)
    with pytest.raises(InvalidInput, match="deeper"):
        strict_json.read(b'{"a":' + fits + b"}", max_depth=depth)


def test_very_deep_text_is_refused_too() -> None:
    """A text nested far beyond the reader's own stack is refused in the same way."""
    with pytest.raises(InvalidInput, match="deeper"):
        strict_json.read(b"[" * 500_000, max_depth=16)


@pytest.mark.parametrize("text", ["1.10", "1e5", "-0", "0.1e-7", "12345678901234567890.10", "9" * 6_000])
def test_numbers_stay_as_they_stand(text: str) -> None:
    """A number asked for as text is the characters of the file."""
    value = strict_json.read(f"[{text}]".encode(), max_depth=1, numbers_as_text=True)
    assert value == [text]
    assert isinstance(value[0], strict_json.Number)
    assert strict_json.text_of(value) == f"[{text}]"


def test_a_value_becomes_its_compact_text() -> None:
    """Text, truth values, null, arrays and objects are written compactly, letters as letters."""
    data = '{ "é": [true, null, "a\\"b", {"x": 1.50}] }'.encode()
    value = strict_json.read(data, max_depth=4, numbers_as_text=True)
    assert strict_json.text_of(value) == '{"é":[true,null,"a\\"b",{"x":1.50}]}'
