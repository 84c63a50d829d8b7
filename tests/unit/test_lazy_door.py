"""The door: its names are those it lists, and none of them is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import perenne


@pytest.mark.parametrize("name", perenne.__all__)
def test_every_name_opens(name: str) -> None:
    """Each public name leads to a value, and twice to the same one."""
    assert getattr(perenne, name) is getattr(perenne, name)
    assert name in dir(perenne)


def test_other_names_do_not_open() -> None:
    """What is not listed is refused by name."""
    with pytest.raises(AttributeError, match="'perenne' has no attribute 'Ledger'"):
        _ = perenne.Ledger  # type: ignore[attr-defined]


def test_importing_the_package_loads_nothing_else() -> None:
    """`import perenne` loads neither the engine nor what it stands on, so that help and version are fast."""
    program = "import sys, perenne; print(*sorted(n for n in sys.modules if n.startswith(('perenne.', 'apsw', 'msg'))))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.stdout.strip(), ended.stderr) == ("", "")
