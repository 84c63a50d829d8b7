"""The doctor's look at an investigation: every file the catalogue names is there and as it says, or is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne.apps.evidence import app, custody, places
from perenne.errors import StoreMissing


def verdicts(root: Path, *, deep: bool = False) -> dict[str, tuple[str, str]]:
    return {name: (verdict, sentence) for name, verdict, sentence, _ in custody.look(root, deep)}


def test_a_sound_investigation(analysis: Any) -> None:
    """Where nothing is missing everything is ok, by size and by bytes."""
    for deep in (False, True):
        assert {verdict for verdict, _ in verdicts(analysis.root, deep=deep).values()} == {"ok"}


def grow(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b"!")


def link(path: Path) -> None:
    kept = path.rename(path.with_name("elsewhere"))
    path.symlink_to(kept)


@pytest.mark.parametrize(
    ("harm", "said"),
    [(Path.unlink, "is missing"), (grow, "bytes, not"), (link, "symlink")],
    ids=["gone", "grown", "link"],
)
def test_an_original_that_changed_is_named(analysis: Any, harm: Callable[[Path], object], said: str) -> None:
    """An original that is missing, of another size, or a link is named, with no byte read."""
    harm(analysis.original)
    verdict, sentence = verdicts(analysis.root)["originals"]
    assert verdict == "bad"
    assert analysis.original.relative_to(analysis.root).as_posix() in sentence
    assert said in sentence


def test_other_bytes_of_the_same_size_are_found_deep(analysis: Any) -> None:
    """A file whose size is right and whose bytes are not is found by the deep look, which alone reads them."""
    content = analysis.original.read_bytes()
    analysis.original.chmod(0o600)
    analysis.original.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert verdicts(analysis.root)["originals"][0] == "ok"
    assert "other bytes than when it was hashed" in verdicts(analysis.root, deep=True)["originals"][1]


def test_a_missing_catalogue_is_refused_by_name(analysis: Any) -> None:
    """Without its catalogue there is nothing to look by: the error names it and says what to do."""
    (analysis.root / places.CATALOGUE).unlink()
    with pytest.raises(StoreMissing, match=f"{places.CATALOGUE} is missing .*; it is never made again silently"):
        verdicts(analysis.root)


def test_the_application_hands_its_look_over() -> None:
    """`perenne doctor` asks Evidence for this look."""
    assert app.doctor is custody.look
