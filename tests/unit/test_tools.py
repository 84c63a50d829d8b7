"""tools.find: programs are looked up where tools look, not where the user looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from perenne import tools
from perenne.errors import InvalidInput


def test_program_of_the_system_is_found() -> None:
    """A program in the fixed PATH is found as an absolute path."""
    found = tools.find("sh")
    assert found is not None
    assert found.parent in (Path("/usr/bin"), Path("/bin"))


def test_users_path_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that only the user's PATH names is not found."""
    program = tmp_path / "only-mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.find("only-mine") is None


def test_absent_program_is_none() -> None:
    """A name that no folder of the fixed PATH holds gives None."""
    assert tools.find("no-such-program-anywhere") is None


@pytest.mark.parametrize("name", ["", "/bin/sh", "../bin/sh", "a\0b"])
def test_only_plain_names_are_looked_up(name: str) -> None:
    """A path is no name, and the sentence says so."""
    with pytest.raises(InvalidInput, match="plain name"):
        tools.find(name)
