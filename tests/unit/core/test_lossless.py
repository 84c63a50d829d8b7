"""What a typed reading would lose is found at its place; what it keeps is not complained about."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perenne.core.lossless import first_loss

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


class Leaf(msgspec.Struct, frozen=True):
    name: str = ""


class Tree(msgspec.Struct):
    leaves: list[Leaf]
    order: tuple[Leaf, ...] = ()
    pile: set[int] = msgspec.field(default_factory=set)
    branches: dict[int, Leaf] = msgspec.field(default_factory=dict)


@given(PLAIN)
def test_a_free_value_loses_nothing(value: Any) -> None:
    """A type that takes anything keeps everything."""
    assert first_loss(value, msgspec.json.decode(msgspec.json.encode(value))) is None


@given(st.lists(st.text(max_size=3), max_size=4), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_a_typed_value_loses_nothing(names: list[str], pile: set[int], places: set[int]) -> None:
    """Lists, tuples, sets and mappings with keys that are numbers are kept as they are."""
    tree = Tree([Leaf(name) for name in names], tuple(map(Leaf, names)), pile, {n: Leaf(str(n)) for n in places})
    encoded = msgspec.json.encode(tree)
    assert first_loss(msgspec.json.decode(encoded), msgspec.json.decode(encoded, type=Tree)) is None
    assert first_loss(msgspec.to_builtins(tree), tree) is None


def test_the_first_loss_is_named_by_its_place() -> None:
    """The place is written as JSON paths are, from `$`."""
    inner = {"leaves": [{"name": "a"}, {"name": "b", "colour": 1}], "branches": {"3": {"x": 1}}}
    later = {"leaves": [], "branches": {"3": {"x": 1}}}
    for value, place in ((inner, "$.leaves[1].colour"), (later, "$.branches.3.x")):
        assert first_loss(value, msgspec.convert(value, Tree, str_keys=True)) == f"{place} is not a field it knows"
