"""Strict reading of JSON that someone else wrote, and the text of a value that was read.

Stricter than the standard library: UTF-8 only, no key twice, no NaN, bounded depth, numbers kept as they stand.
"""

from __future__ import annotations

import json
from typing import Any

from perenne.errors import InvalidInput


class Number(str):
    """A JSON number as the characters that stand in the file, so that 1.10 stays 1.10."""

    __slots__ = ()


def read(data: bytes, *, max_depth: int, numbers_as_text: bool = False) -> Any:
    """The value of a JSON text: dict, list, str, bool, None and, as asked, int and float or `Number`.

    Args:
        max_depth: how many arrays and objects may stand inside each other.
    Raises:
        InvalidInput: no strict JSON, with the reason.
    """
    as_number: dict[str, Any] = {"parse_int": Number, "parse_float": Number} if numbers_as_text else {}
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant, **as_number
        )
    except RecursionError:
        raise InvalidInput(f"the JSON is nested deeper than {max_depth} levels", limit=max_depth) from None
    except ValueError as error:
        raise InvalidInput(f"the text is not strict JSON: {error}") from error
    _refuse_deeper(value, max_depth)
    return value


def text_of(value: Any) -> str:
    """The compact JSON text of a value, its numbers as they stood."""
    if isinstance(value, Number):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{text_of(key)}:{text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for position, name in enumerate(names) if name in names[:position])
        raise ValueError(f"the key {repeated[:80]!r} stands twice in one object")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _refuse_deeper(value: Any, max_depth: int) -> None:
    """Walk the value once with a stack of our own; refuse depth over the limit and text that is no Unicode."""
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            _refuse_surrogates(item)
        if not isinstance(item, (dict, list)):
            continue
        if depth > max_depth:
            raise InvalidInput(f"the JSON is nested deeper than {max_depth} levels", limit=max_depth)
        if isinstance(item, dict):
            waiting.extend((name, depth) for name in item)
        waiting.extend((inner, depth + 1) for inner in (item.values() if isinstance(item, dict) else item))


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput("the JSON holds half of a surrogate pair, which is no character") from None
