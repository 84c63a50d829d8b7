"""What a typed reading would lose without a word, and what JSON cannot hold: odd numbers, halves of characters.

What does not live here: the types themselves, and refusing (`kind`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from perenne.core.limits import is_whole

HALF = "holds half a character (a lone surrogate), which UTF-8 cannot"


def first_loss(given: Any, typed: Any, place: str = "$") -> str | None:
    """The first place where `typed` does not keep what was given, as a sentence; None when nothing is lost.

    Args: given: plain values as JSON has them. typed: what msgspec made of them.
    """
    match given:
        case float():
            return None if math.isfinite(given) else f"{place} is {given}, which JSON cannot hold"
        case str():
            return None if is_whole(given) else f"{place} {HALF}"
        case dict():
            return _first_in_mapping(given, typed, place)
        case list() | tuple():
            return _first_in_sequence(given, typed, place)
    return None


def why_refused(value: Any, error: Exception) -> str:
    """What the error says, or the place of what it is about: of half a character a codec tells none.

    Args: value: plain values, or JSON bytes.
    """
    with contextlib.suppress(TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        given = json.loads(value) if isinstance(value, bytes) else msgspec.to_builtins(value)
        return first_loss(given, None) or str(error)
    return str(error)


def _first_in_mapping(given: dict[Any, Any], typed: Any, place: str) -> str | None:
    half = next((name for name in given if isinstance(name, str) and not is_whole(name)), None)
    if half is not None:
        return f"{place}: the name {half!r} {HALF}"
    kept = _fields_of(typed)
    if isinstance(typed, dict) and len(typed) == len(given):
        # A free mapping may have read its keys as numbers; it keeps their order.
        kept = dict(zip(given, typed.values(), strict=True))
    unknown = next((name for name in given if kept is not None and name not in kept), None)
    if unknown is not None:
        return f"{place}.{unknown} is not a field it knows"
    pairs = ((value, (kept or {}).get(name), f"{place}.{name}") for name, value in given.items())
    return _first(pairs)


def _first_in_sequence(given: list[Any] | tuple[Any, ...], typed: Any, place: str) -> str | None:
    kept = _items_of(typed)
    if kept is not None and len(given) > len(kept):
        return f"{place}[{len(kept)}] is one value too many"
    pairs = ((item, kept[n] if kept else None, f"{place}[{n}]") for n, item in enumerate(given))
    return _first(pairs)


def _first(pairs: Iterable[tuple[Any, Any, str]]) -> str | None:
    return next((loss for given, typed, place in pairs if (loss := first_loss(given, typed, place))), None)


def _fields_of(typed: Any) -> Mapping[str, Any] | None:
    """Names, as JSON has them, of what a typed value keeps; None when it is not made of fields."""
    if isinstance(typed, msgspec.Struct):
        values = (getattr(typed, name) for name in typed.__struct_fields__)
        tag = typed.__struct_config__.tag_field
        return dict(zip(typed.__struct_encode_fields__, values, strict=True)) | ({tag: None} if tag else {})
    if dataclasses.is_dataclass(typed):
        return {field.name: getattr(typed, field.name) for field in dataclasses.fields(typed)}
    if hasattr(typed, "__attrs_attrs__"):
        return {field.name: getattr(typed, field.name) for field in typed.__attrs_attrs__}
    return typed if isinstance(typed, dict) else None


def _items_of(typed: Any) -> list[Any] | None:
    """What a typed value keeps in order; None when it has no order (a set)."""
    if isinstance(typed, msgspec.Struct):
        tag = [None] if typed.__struct_config__.tag is not None else []
        return tag + [getattr(typed, name) for name in typed.__struct_fields__]
    return list(typed) if isinstance(typed, list | tuple) else None
