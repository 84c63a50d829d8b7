"""Checkpoints against their bare parts, in the same run: one commit, and one file that is written, hashed and synced.

On the machine's own disk, then with 2 ms added to every sync, of the store and of files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from figures import Figure
from rivals import open_engine
from slow_disk import NAME, SYNC_S, SlowDisk

from perenne import App, Context, Engine, Kind, sqlite
from perenne.store.sqlite import checkpoints, driver

SMALL_BYTES, LARGE_BYTES = 1_000, 1 << 20
WARM_UP = 400

_SAVE = """
insert into checkpoint (job, attempt, number, generation, sequences, size_bytes, digest, record, saved_at)
values (1, ?, 1, ?, 0, ?, ?, ?, 1)
on conflict (job) do update set
    generation = excluded.generation, size_bytes = excluded.size_bytes,
    digest = excluded.digest, record = excluded.record
"""


class State(msgspec.Struct):
    """The state that is saved: how-many-th it is, and bytes that are carried along."""

    at: int
    carried: bytes


Saves = Callable[[int, int], float]  # seconds that so many saves take, each of so many bytes


class Bare:
    """The parts of a save and nothing else: no lock, no token, no encoding."""

    def __init__(self, folder: Path, vfs: str | None) -> None:
        folder.mkdir()
        self._folder, self._generation = folder, 0
        path = folder / "bare.sqlite"
        sqlite.open(path, mode="create").close()
        self._connection = sqlite.open(path, mode="write", vfs=vfs)
        self._connection.pragma("wal_autocheckpoint", checkpoints.CHECKPOINT_PAGES)
        self._connection.execute("create table job (seq integer primary key)")
        self._connection.execute("insert into job values (1)")
        self._connection.execute(_checkpoint_table())

    def small(self, count: int, size: int) -> float:
        """Commit a row."""
        started = time.perf_counter()
        for number in range(count):
            data = number.to_bytes(8, "big") + bytes(size)
            self._commit(len(data), hashlib.sha256(data).hexdigest(), data)
        return time.perf_counter() - started

    def large(self, count: int, size: int) -> float:
        """Write a file, hash it, sync it and its folder, commit a row, rename it, and sync the folder again."""
        started = time.perf_counter()
        for number in range(count):
            data = number.to_bytes(8, "big") + bytes(size)
            staged = self._folder / f"one.{self._generation}.next"
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.write(descriptor, data)
            digest = hashlib.sha256(data).hexdigest()
            os.fsync(descriptor)
            os.close(descriptor)
            self._sync_folder()
            self._commit(len(data), digest, None)
            os.replace(staged, self._folder / "one.chk")
            self._sync_folder()
        return time.perf_counter() - started

    def _commit(self, size: int, digest: str, data: bytes | None) -> None:
        self._generation += 1
        self._connection.execute("begin immediate")
        self._connection.execute(_SAVE, ("a" * 32, self._generation, size, digest, data))
        self._connection.execute("commit")

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(descriptor)
        os.close(descriptor)

    def close(self) -> None:
        self._connection.close()


class Saver:
    """The saves of a running attempt."""

    def __init__(self, context: Context, root: Path) -> None:
        self._context, self._root, self._at = context, root, 0

    def saves(self, count: int, size: int) -> float:
        carried = bytes(size)
        started = time.perf_counter()
        for _ in range(count):
            self._at += 1
            self._context.checkpoint(State(self._at, carried))
        return time.perf_counter() - started

    def again(self, count: int, size: int) -> tuple[float, int]:
        """Seconds that so many saves of one state take, and how many bytes of the workspace were written meanwhile."""
        state = State(-1, bytes(size))
        self._context.checkpoint(state)
        before = _written()
        started = time.perf_counter()
        for _ in range(count):
            self._context.checkpoint(state)
        return time.perf_counter() - started, _written() - before


def _written() -> int:
    """Bytes that this process has asked the system to write, so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of both disks."""
    counts = {"own disk": (150, 20) if quick else (600, 60), "2 ms more a sync": (40, 10) if quick else (150, 30)}
    slow = SlowDisk()
    figures = _disk(folder / "own", "own disk", None, counts["own disk"], rounds)
    figures += _disk(folder / "slow", "2 ms more a sync", slow, counts["2 ms more a sync"], rounds)
    settings = {"rounds": rounds, "saves_a_round_small_and_large": counts, "added_to_a_sync_s": SYNC_S}
    return settings | {"bytes_small_and_large": (SMALL_BYTES, LARGE_BYTES)}, figures


def _disk(folder: Path, name: str, slow: SlowDisk | None, counts: tuple[int, int], rounds: int) -> list[Figure]:
    folder.mkdir()
    figures: list[Figure] = []

    def handler(context: Context, input: object) -> None:
        figures.extend(_compared(Saver(context, folder), bare, slow, name, counts, rounds))

    kind = Kind("bench.save", 1, handler, dict[str, int], state_type=State)
    vfs = None if slow is None else NAME
    app = App("bench", [kind])
    with (
        contextlib.closing(Bare(folder / "bare", vfs)) as bare,
        open_engine(folder / "workspace", vfs, app, work=True) as engine,
    ):
        _run(engine, kind)
    return figures


def _run(engine: Engine, kind: Kind) -> None:
    receipt = engine.submit(kind, {})
    engine.work()
    job = engine.job(receipt.job_id)
    if job.diagnostic:
        raise RuntimeError(job.diagnostic)


def _compared(
    saver: Saver, bare: Bare, slow: SlowDisk | None, name: str, counts: tuple[int, int], rounds: int
) -> list[Figure]:
    saver.saves(WARM_UP, SMALL_BYTES)
    bare.small(WARM_UP, SMALL_BYTES)
    with _slow_files() if slow is not None else contextlib.nullcontext():
        small = _rounds(bare.small, saver.saves, counts[0], SMALL_BYTES, rounds)
        large = _rounds(bare.large, saver.saves, counts[1], LARGE_BYTES, rounds)
        again = [saver.again(counts[0], SMALL_BYTES) for _ in range(rounds)]
    rates = [bare_s / ours_s for bare_s, ours_s in zip(*small, strict=True)]
    times = [ours_s / bare_s for bare_s, ours_s in zip(*large, strict=True)]
    written = [float(written) for _, written in again]
    return [
        Figure(f"{name}: checkpoint in the row / bare commit", statistics.median(rates), "ratio", ">= 0.7", rates),
        Figure(f"{name}: time of a file of 1 MiB / bare", statistics.median(times), "ratio", "<= 1.3", times),
        Figure(f"{name}: written for an unchanged state", max(written), "bytes", "<= 0", written),
        _each(f"{name}: bare commit", small[0], counts[0]),
        _each(f"{name}: checkpoint in the row", small[1], counts[0]),
        _each(f"{name}: bare file", large[0], counts[1]),
        _each(f"{name}: checkpoint in a file", large[1], counts[1]),
        _each(f"{name}: unchanged state", [taken_s for taken_s, _ in again], counts[0]),
    ]


def _rounds(bare: Saves, ours: Saves, count: int, size: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds a round of each; who begins alternates."""
    bare_s: list[float] = []
    ours_s: list[float] = []
    for number in range(rounds):
        if number % 2:
            ours_s.append(ours(count, size))
        bare_s.append(bare(count, size))
        if not number % 2:
            ours_s.append(ours(count, size))
    return bare_s, ours_s


@contextlib.contextmanager
def _slow_files() -> Iterator[None]:
    """Every sync of a file takes longer too, as those of the store do."""
    real = os.fsync

    def fsync(descriptor: Any) -> None:
        time.sleep(SYNC_S)  # what is added to every sync is what is measured
        real(descriptor)

    os.fsync = fsync
    try:
        yield
    finally:
        os.fsync = real


def _each(name: str, taken_s: list[float], count: int) -> Figure:
    each_us = [taken / count * 1e6 for taken in taken_s]
    return Figure(name, statistics.median(each_us), "µs each", "", each_us)


def _checkpoint_table() -> str:
    """The statement of the ledger's schema that makes the table of checkpoints."""
    text = (Path(driver.__file__).parent / "schema.sql").read_text(encoding="utf-8")
    return text[text.index("create table checkpoint ") :].partition(";")[0]


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py checkpoints")
