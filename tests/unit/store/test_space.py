"""Below the floor nothing new is taken on; what already runs is recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perenne.core import events
from perenne.core.job import Submission
from perenne.core.publication import Published
from perenne.errors import DiskLow, StoreFailed
from perenne.store import space
from perenne.store.ledger import Ending, Lane, Ledger
from perenne.store.owners import Owner, Owners
from perenne.store.sqlite import driver
from perenne.store.sqlite.driver import SQLiteDriver

LANES = [Lane("sum", 1)]
ENDED = events.Ended(answer=events.Returned(b"1"), published=Published.absent(), active_ms=1, limit_used=False)


class Disk:
    """What statvfs says, and how often it was asked."""

    def __init__(self) -> None:
        self.total_bytes, self.free_bytes, self.asked = 1 << 40, 1 << 39, 0

    def __call__(self, path: object) -> os.statvfs_result:
        self.asked += 1
        free = self.free_bytes // 4096
        return os.statvfs_result((4096, 4096, self.total_bytes // 4096, free + 1000, free, 0, 0, 0, 0, 255))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(os, "statvfs", disk)
    monkeypatch.setattr(space, "FRESH_S", 0.0)
    return disk


@pytest.fixture
def ledger(tmp_path: Path) -> Callable[[], Ledger]:
    path = tmp_path / "ledger.sqlite"
    driver.create(path, workspace="w", now=1)
    store = SQLiteDriver(path, workspace="w")
    ledger = Ledger(store)
    ledger.add_queue("default", 100)
    Owners(store).join(Owner("w", 1, "boot", "start"), now=1)
    return lambda: ledger


def job(n: int) -> Submission:
    return Submission(id=f"00000000-0000-4000-8000-{n:012d}", kind="sum", version=1, input=b"{}")


@pytest.mark.parametrize(
    ("total_bytes", "floor_bytes"),
    [(1 << 40, 64 << 20), (6400 << 20, 64 << 20), (1 << 30, (1 << 30) // 100), (409_600, 4096), (0, 0)],
)
def test_floor_is_the_smaller_of_the_two(disk: Disk, tmp_path: Path, total_bytes: int, floor_bytes: int) -> None:
    """64 MiB, or one hundredth of a disk that is smaller than 6.25 GiB."""
    disk.total_bytes = total_bytes
    assert space.floor(tmp_path) == space.Space(1 << 39, floor_bytes)


def test_real_disk_answers(tmp_path: Path) -> None:
    """The free bytes are those that an ordinary user may still write."""
    found = os.statvfs(tmp_path)
    assert abs(space.floor(tmp_path).free_bytes - found.f_bavail * found.f_frsize) < 1 << 30


def test_disk_that_is_gone_is_named(tmp_path: Path) -> None:
    """A folder whose disk does not answer is an error that names it."""
    with pytest.raises(StoreFailed, match=r"none: its free space cannot be asked \(No such file"):
        space.floor(tmp_path / "none")


def test_submit_is_refused_below_the_floor(disk: Disk, ledger: Callable[[], Ledger]) -> None:
    """Submits are refused with both numbers before anything is written, one by one and as a batch; then they go on."""
    before = ledger().submit(job(1), now=1, actor="test")
    disk.free_bytes = (64 << 20) - 4096
    with pytest.raises(DiskLow, match=r"67,104,768 bytes are free, the floor is 67,108,864") as raised:
        ledger().submit(job(2), now=1, actor="test")
    assert (raised.value.value, raised.value.limit) == (67_104_768, 67_108_864)
    with pytest.raises(DiskLow):
        ledger().submit_many([job(2), job(3)], now=1, actor="test")
    disk.free_bytes = 64 << 20
    assert not ledger().submit(job(2), now=1, actor="test").reused
    assert ledger().submit(job(1), now=1, actor="test").job_id == before.job_id


def test_claims_stop_and_ends_go_on_r15_r16(disk: Disk, ledger: Callable[[], Ledger]) -> None:
    """Below the floor nothing is claimed and the reason can be asked; ends, cancels and controls are recorded."""
    for n in range(4):
        ledger().submit(job(n), now=1, actor="test")
    one, two = (ledger().claim(LANES, owner="w", attempt=attempt, now=2) for attempt in "ab")
    assert one is not None
    assert two is not None
    disk.free_bytes = 0
    assert ledger().claim(LANES, owner="w", attempt="c", now=3) is None
    assert isinstance(ledger().refusal("claim"), DiskLow)
    assert ledger().end(one.token, ENDED, now=3, luck=0.0, actor="test")[0].is_final
    turn = ledger().turn([Ending(two.token, ENDED, 0.0)], LANES, ["d"], owner="w", now=4, actor="test")
    assert isinstance(turn.ended[0], list)
    assert turn.claims == []
    assert ledger().tell(job(3).id, events.Cancel(), now=5, actor="test")[0].is_final
    ledger().control("pause", None, now=5, actor="test")
    ledger().control("resume", None, now=5, actor="test")
    disk.free_bytes = 1 << 39
    assert ledger().refusal("claim") is None
    assert ledger().claim(LANES, owner="w", attempt="e", now=6) is not None


def test_disk_is_asked_ten_times_a_second(
    disk: Disk, ledger: Callable[[], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs are submitted, the disk is looked at once in 100 ms."""
    monkeypatch.setattr(space, "FRESH_S", 60.0)
    ledger().submit(job(0), now=1, actor="test")
    asked = disk.asked
    for n in range(1, 50):
        ledger().submit(job(n), now=1, actor="test")
    assert disk.asked == asked
    assert asked >= 1
    monkeypatch.setattr(space.time, "monotonic", lambda: 1e9)
    ledger().refusal("claim")
    assert disk.asked == asked + 1
