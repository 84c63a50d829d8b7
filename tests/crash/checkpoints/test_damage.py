"""Checkpoints with damage in them: their records by the million, and whole workspaces; all of it in recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoints import fuzz, workspaces
from perenne.errors import CheckpointCorrupt
from perenne.files import record

pytestmark = pytest.mark.crash

INPUTS, WORKSPACES = 1_000_000, 150


def test_a_million_damaged_records(seed: int) -> None:
    """Each is read as what its bytes say, or refused in one sentence; half of them have a checksum that fits."""
    found = fuzz.fuzz(seed, INPUTS)
    assert not found.wrong, f"seed {seed}: " + "\n".join(found.wrong)
    assert found.answers.total() == INPUTS
    assert min(found.answers[answer] for answer in ("read", "corrupt", "unsupported")) > INPUTS // 100


def test_a_careless_codec_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions bite: a decoder that forgets its checksum, or lets an error of the library through, is found."""
    whole = record.decode

    def forgets(data: bytes) -> record.Checkpoint:
        try:
            return whole(data)
        except CheckpointCorrupt as error:
            if "checksum" not in str(error):
                raise
        return record._DECODE(data[20:-32])

    monkeypatch.setattr(record, "decode", forgets)
    assert fuzz.fuzz(1, 2_000).wrong


def test_damaged_workspaces(seed: int) -> None:
    """A workspace opens or is refused in one sentence; a damaged checkpoint harms its own job, and no other."""
    found = workspaces.run(seed, WORKSPACES)
    assert not found["wrong"], f"seed {seed}: " + "\n".join(found["wrong"])
    assert sum(found["answers"].values()) == WORKSPACES


def test_a_harmed_neighbour_is_found(tmp_path: Path) -> None:
    """The questions bite: damage that nobody is said to bear is found."""
    ids = workspaces.prepare(tmp_path / "workspace")
    (tmp_path / "workspace" / ".perenne" / "checkpoints" / f"{ids[1]}.chk").unlink()
    with pytest.raises(AssertionError, match="another job is harmed"):
        workspaces.judge(tmp_path / "workspace", ids, workspaces.Place("nothing"))
