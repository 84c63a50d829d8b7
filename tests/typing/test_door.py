"""The type-checked example of the door leaves no public name out."""

from __future__ import annotations

import ast
from pathlib import Path

import perenne

EXAMPLE = Path(__file__).parent / "door.py"


def test_every_name_of_the_door_is_used() -> None:
    """Each name in `perenne.__all__` stands in the example outside its imports, so the type checker sees its shape."""
    tree = ast.parse(EXAMPLE.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    through_the_package = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "perenne"
    }
    assert set(perenne.__all__) <= names | through_the_package


def test_the_door_keeps_what_it_lists() -> None:
    """Every listed name is there."""
    assert not [name for name in perenne.__all__ if not hasattr(perenne, name)]
