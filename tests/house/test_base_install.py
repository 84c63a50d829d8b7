"""The base install stays small: its packages are counted through everything they require themselves."""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES_MAX = 6
ALLOWED_DIRECTLY = {"apsw", "msgspec", "click"}


def needed(requirement: Requirement) -> bool:
    """Whether the requirement holds on this machine when no extra was asked for."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def closure(start: Iterable[str], requires: Callable[[str], Iterable[str] | None]) -> set[str]:
    """Names of all packages that the starting requirements bring in."""
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if needed(requirement) and name not in found:
            found.add(name)
            waiting.extend(requires(name) or ())
    return found


def declared() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["dependencies"])


def test_closure_follows_requirements_and_leaves_extras_out() -> None:
    """Packages are counted through their own requirements; extras and other systems are not."""
    shelf = {
        "a": ["B_c>=1", "x; extra == 'more'"],
        "b-c": ["a", "y; python_version < '3'"],
    }
    assert closure(["a[more]"], shelf.get) == {"a", "b-c"}


def test_base_install_is_small() -> None:
    """The base install brings at most six packages, transitive ones included."""
    packages = closure(declared(), importlib.metadata.requires)
    assert packages >= ALLOWED_DIRECTLY
    assert len(packages) <= PACKAGES_MAX, sorted(packages)


def test_base_dependencies_are_the_three() -> None:
    """The package itself asks for apsw, msgspec and click, and for nothing else."""
    assert {canonicalize_name(Requirement(line).name) for line in declared()} == ALLOWED_DIRECTLY
