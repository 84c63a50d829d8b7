"""A kind checks its input at submit and encodes it in one way; it never stores what its handler could not read."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perenne.core import limits
from perenne.core.kind import Kind
from perenne.errors import InvalidInput, TooLarge


class Side(msgspec.Struct, frozen=True):
    name: str
    length_mm: float = 1.0


class Named(msgspec.Struct, frozen=True, rename="camel", tag="named", omit_defaults=True):
    first_name: str = "?"


class Numbered(msgspec.Struct, frozen=True, tag="numbered", array_like=True):
    number: int = 0


class Sheet(msgspec.Struct, frozen=True):
    width: int
    sides: list[Side] = []
    labels: dict[str, Side] = {}
    mark: Named | None = None
    serial: Numbered | None = None
    free: Any = None


@dataclasses.dataclass(frozen=True)
class Plain:
    width: int
    side: Side | None = None


def kind_of(input_type: Any, **other: Any) -> Kind:
    return Kind("test.work", 1, lambda context, input: None, input_type, **other)


SHEET = kind_of(Sheet)


@pytest.mark.parametrize(
    "value",
    [
        Sheet(3),
        {"width": 3},
        b'{"width": 3}',
        b' {"labels":{}, "width":3, "sides":[], "free":null}',
    ],
)
def test_one_input_has_one_encoding(value: object) -> None:
    """Instance, plain values and JSON in any order give the same bytes, so that equal content is recognised."""
    assert SHEET.encode_input(value) == SHEET.encode_input(Sheet(width=3))
    assert SHEET.read_input(SHEET.encode_input(value)) == Sheet(width=3)


@given(st.dictionaries(st.text(max_size=4), st.integers(), max_size=6), st.randoms())
def test_the_encoding_does_not_depend_on_order(values: dict[str, int], random: Any) -> None:
    """A mapping filled in another order is the same input."""
    shuffled = list(values.items())
    random.shuffle(shuffled)
    bounded = {name: value % 2**63 for name, value in values.items()}
    kind = kind_of(dict[str, int])
    assert kind.encode_input(bounded) == kind.encode_input({name: value % 2**63 for name, value in shuffled})


REFUSED = {
    "wrong type": ({"width": "3"}, "width"),
    "a float for an integer": ({"width": 3.5}, "width"),
    "missing": ({}, "width"),
    "nothing": (None, "object"),
    "wrong nested type": ({"width": 3, "sides": [{"name": 4}]}, "sides[0].name"),
    "unknown": ({"width": 3, "colour": 4}, "colour"),
    "unknown, nested in a list": ({"width": 3, "sides": [{"name": "a"}, {"name": "b", "x": 1}]}, "sides[1].x"),
    "unknown, nested in a mapping": ({"width": 3, "labels": {"k": {"name": "a", "x": 1}}}, "labels.k.x"),
    "unknown, in a union": ({"width": 3, "mark": {"type": "named", "first_name": "x"}}, "mark.first_name"),
    "one too many": ({"width": 3, "serial": ["numbered", 4, 5]}, "serial[2]"),
    "not a number": ({"width": 3, "free": float("nan")}, "free"),
    "infinite, nested": ({"width": 3, "free": {"a": [1.0, float("-inf")]}}, "free.a[1]"),
    "not encodable": ({"width": 3, "free": object()}, "object"),
    "half a character": ({"width": 3, "free": "\udcff"}, "$.free holds half a character"),
    "half a character, nested": ({"width": 3, "free": {"a": ["b\ud800c"]}}, "$.free.a[0] holds half a character"),
    "half a character, a name": ({"width": 3, "free": {"\ud800": 1}}, r"$.free: the name '\ud800' holds half"),
    "half a character, typed": (Sheet(3, labels={"k": Side("\ud800")}), "$.labels.k.name holds half a character"),
    "half a character, in JSON": (b'{"width": 3, "free": "\\ud800"}', "$.free holds half a character"),
    "half a character, a name in JSON": (b'{"width": 3, "free": {"\\udfff": 1}}', r"the name '\udfff' holds half"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_field_is_refused_by_name(name: str) -> None:
    """What does not fit, is unknown or cannot be read back is refused at submit, with its place."""
    value, place = REFUSED[name]
    with pytest.raises(InvalidInput, match=r"input of test\.work@1") as refused:
        SHEET.encode_input(value)
    assert place in str(refused.value)
    assert str(refused.value).isascii()
    assert refused.value.field == "input"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"\xff",
        b"null",
        b'{"width": 3} {}',
        b'{"width": 1e400}',
        b'{"width": 3, "colour": 4}',
        b'{"width": 3, "mark": {"type": "other"}}',
        b"[" * 100_000,
    ],
)
def test_wrong_json_is_refused(value: bytes) -> None:
    """Broken, incomplete, too deep or unknown JSON gets the same error as wrong values."""
    with pytest.raises(InvalidInput, match=r"input of test\.work@1"):
        SHEET.encode_input(value)


@pytest.mark.parametrize(
    "value",
    [
        {"width": 3, "mark": {"type": "named", "firstName": "?"}},
        {"width": 3, "mark": {"type": "named", "firstName": "Ada"}},
        {"width": 3, "serial": ["numbered", 4]},
        {"width": 3, "free": {"anything": [1, None, {"x": 2.5}]}},
        Sheet(3, [Side("a")], {"k": Side("b")}, Named("Ada"), Numbered(4), {"x": (1, 2)}),
    ],
)
def test_known_fields_are_taken(value: object) -> None:
    """Renamed, tagged, defaulted and free fields are known; nothing that the type declares is refused."""
    SHEET.encode_input(value)


def test_fields_of_a_dataclass_are_checked_too() -> None:
    """An unknown field is refused whatever the input type is made with."""
    kind = kind_of(Plain)
    assert kind.encode_input(Plain(3, Side("a"))) == kind.encode_input({"width": 3, "side": {"name": "a"}})
    for unknown in ({"width": 3, "x": 1}, {"width": 3, "side": {"name": "a", "x": 1}}):
        with pytest.raises(InvalidInput, match="x"):
            kind.encode_input(unknown)


def test_a_typed_dict_is_checked_too() -> None:
    """An unknown key of a typed mapping is refused; a free mapping takes any key of its type."""
    from typing import TypedDict

    kind = kind_of(TypedDict("Point", {"x": int}))
    assert kind.encode_input({"x": 1}) == b'{"x":1}'
    with pytest.raises(InvalidInput, match="y"):
        kind.encode_input({"x": 1, "y": 2})
    assert kind_of(dict[int, str]).encode_input({1: "a"}) == b'{"1":"a"}'
    assert kind_of(dict[int, str]).encode_input(b'{"1":"a"}') == b'{"1":"a"}'


def test_a_deep_value_is_refused() -> None:
    """A value nested deeper than can be read back is refused, not a crash."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput):
        kind_of(Any).encode_input(deep)


def test_an_oversize_input_is_refused() -> None:
    """256 KiB of encoded input fit; one byte more is refused with size, limit and next step."""
    kind = kind_of(str)
    kind.encode_input("x" * (limits.INPUT_BYTES - 2))
    with pytest.raises(TooLarge, match=r"input: 262145 bytes, the limit is 262144; submit a reference"):
        kind.encode_input("x" * (limits.INPUT_BYTES - 1))


def test_give_up_on_is_asked_first() -> None:
    """E-F3: retryable is what `retry_on` lists and `give_up_on` does not."""
    kind = kind_of(Any, retry_on=(OSError,), give_up_on=(FileNotFoundError,))
    assert [kind.retries(error) for error in (OSError(), FileNotFoundError(), ValueError())] == [True, False, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"name": "a\0"},
        {"name": "\udcff"},
        {"version": 0},
        {"max_attempts": 0},
        {"max_attempts": 101},
        {"interruptions": 0},
        {"interruptions": 101},
        {"active_limit_s": 0},
        {"active_limit_s": -1.0},
        {"active_limit_s": float("nan")},
        {"active_limit_s": float("inf")},
        {"wall_limit_s": 0},
        {"wall_limit_s": float("nan")},
        {"isolation": "container"},
        {"memory_limit_bytes": 1 << 30},
        {"memory_limit_bytes": 1 << 20, "isolation": "process"},
        {"memory_limit_bytes": 1 << 60, "isolation": "process"},
    ],
)
def test_an_impossible_kind_is_refused(wrong: dict[str, Any]) -> None:
    """A kind has a short name, a version from 1, 1 to 100 attempts and interruptions, and limits that can be kept."""
    right: dict[str, Any] = {"name": "test.work", "version": 1, "handler": print, "input_type": Any}
    Kind(**right)
    with pytest.raises((InvalidInput, TooLarge)):
        Kind(**{**right, **wrong})


def test_half_a_character_in_a_state_is_named() -> None:
    """A checkpoint that UTF-8 cannot hold is refused by its place, too."""
    with pytest.raises(InvalidInput, match=r"state of test\.work@1: \$\.rest\[1\] holds half a character"):
        kind_of(Sheet, state_type=dict[str, list[str]]).encode_state({"rest": ["a", "\ud800"]})
