"""The ledger after a power cut at each of its writes; and the proof that this bench would see it if it were wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from powercut import explore, record
from powercut.recording import load

pytestmark = pytest.mark.crash

IMAGES = 2_000
PLANTED_IMAGES = 250
PARTS = min(2, os.cpu_count() or 1)


@pytest.fixture(scope="module")
def power_seed() -> int:
    """The seed of this run; `PERENNE_CRASH_SEED` repeats one."""
    return int(os.environ.get("PERENNE_CRASH_SEED") or Random().getrandbits(32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("powercut")


@pytest.fixture(scope="module")
def kept(folder: Path) -> Path:
    """Where some of the images of the sound ledger are left."""
    return folder / "kept"


@pytest.fixture(scope="module")
def found(power_seed: int, folder: Path, kept: Path) -> dict[str, dict[str, Any]]:
    """What was found in each story of the sound ledger."""
    return {
        story: record.look(record.record(story, power_seed, "none", folder), power_seed, images, PARTS, kept / story)
        for story, images in {"live": IMAGES, "migrate": IMAGES // 10}.items()
    }


def test_nothing_acknowledged_is_lost(found: dict[str, dict[str, Any]], power_seed: int) -> None:
    """Whatever of its un-synced writes survives, the ledger wakes up whole, with all it acknowledged, by no half."""
    faults = record.faults({"stories": found, "planted": {}})
    assert not faults, "\n".join([f"seed {power_seed}", *faults])
    assert sum(story["distinct"] for story in found.values()) >= IMAGES


def test_each_call_was_cut_short(found: dict[str, dict[str, Any]]) -> None:
    """Power goes during each call that writes: creation, submit, reuse, claim, end, controls, recovery, purge."""
    during = {label for story in found.values() for label in story["during"]}
    calls = "create submit submit_many reuse claim progress finish turn control recover join leave listen notice purge"
    assert during == {*calls.split(), "migrate"}


def test_the_engine_goes_on(found: dict[str, dict[str, Any]], kept: Path) -> None:
    """The engine opens what woke up, settles what ran, and works off another job."""
    woken: list[str] = []
    for story in found:
        command = [sys.executable, str(record.HERE / "resume.py"), str(kept / story)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout[-200:] + done.stderr[-4000:]
        assert done.stdout, f"no image of {story} was kept"
        woken += done.stdout.splitlines()
    assert len(woken) > 10


@pytest.mark.parametrize("planted", record.PLANTED)
def test_planted_fault_is_found(planted: str, power_seed: int, folder: Path) -> None:
    """A ledger that syncs less, or does not hold its statements together, is found out, and found out again."""
    recorded = record.record("live", power_seed, planted, folder)
    seen = record.look(recorded, power_seed, PLANTED_IMAGES, PARTS)
    kind = record.PLANTED[planted]
    assert seen["violations"].get(kind), f"seed {power_seed}: {seen['violations']}"
    example = next(example for example in seen["examples"] if example["kind"] == kind)
    again = explore.repeat(load(recorded), power_seed, example["operation"], example["number"], folder / planted)
    assert again == f"{kind}: {example['sentence']}"
    assert (folder / planted / "ledger.sqlite").exists()


def test_a_seed_gives_the_same_writes(power_seed: int, folder: Path) -> None:
    """The same seed records the same writes, byte for byte, so that a replay command means something."""
    one, two = (load(record.record("live", power_seed, "none", folder)).operations for _ in range(2))
    assert one == two
