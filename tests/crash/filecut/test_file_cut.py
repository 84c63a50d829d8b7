"""A job goes on from what it saved after a power cut at each write and name; and wrong orders would be found out."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from filecut import record
from filecut.recording import WRONG

pytestmark = pytest.mark.crash

IMAGES, PLANTED_IMAGES = 400, 200
PARTS = min(2, os.cpu_count() or 1)


@pytest.fixture(scope="module")
def seed() -> int:
    """The seed of this run; `PERENNE_CRASH_SEED` repeats one."""
    return int(os.environ.get("PERENNE_CRASH_SEED") or Random().getrandbits(32))


def test_the_job_goes_on(seed: int, tmp_path: Path) -> None:
    """E-C4: from the last save that was acknowledged, or the one under way; never from a mixture; nothing left over."""
    seen = record.look(record.record(seed, None, tmp_path), seed, IMAGES, PARTS)
    assert not seen["violations"], f"seed {seed}, recording in {tmp_path}: {seen['examples']}"
    assert seen["distinct"] >= IMAGES


@pytest.mark.parametrize("planted", WRONG)
def test_a_wrong_order_is_found(planted: str, seed: int, tmp_path: Path) -> None:
    """Each wrong order of syncs, renames and the commit stops or loses a job in some state of the disk."""
    seen = record.look(record.record(seed, planted, tmp_path), seed, PLANTED_IMAGES, PARTS, planted)
    assert seen["violations"], f"seed {seed}: nothing was found"
