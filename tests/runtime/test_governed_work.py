"""E-G1, E-G2, E-G8: a worker asks the governor for jobs with an estimate, and never gives away what is not there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Estimate, Kind
from perenne.core.states import JobState
from perenne.errors import InvalidInput

GIB, MIB = 1 << 30, 1 << 20
RULE = "\n[governor]\nmemory_kept_bytes = {kept}\nmemory_emergency_bytes = 0\n{more}\n"
ALONE = "load_ratio = 1000\ncpu_percent = 0\nmemory_percent = 0\nio_percent = 0"


class Floor:
    """What runs at the same moment, and the most that ever did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now, self.most, self.seen = 0, 0, list[tuple[int, int]]()
        self.together = threading.Event()

    def work(self, context: Any, size: int) -> int:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.seen.append((context.batch, context.threads))
        if self.most < 2:
            self.together.wait(0.05)  # reason: gives a second one the chance to begin, which it must not take
        with self._lock:
            self.now -= 1
        return size


def workspace(root: Path, app: App, kept: int = 0, more: str = ALONE) -> perenne.Engine:
    perenne.create(root, app, name="governed")
    manifest = root / "workspace.toml"
    manifest.write_text(manifest.read_text() + RULE.format(kept=kept, more=more))
    return perenne.open(root, app, access="work")


def test_two_that_do_not_fit_run_one_after_the_other(tmp_path: Path) -> None:
    """With two slots and room for one, one runs at a time, and both end."""
    floor = Floor()
    needs = Estimate(memory_bytes=100 * MIB, io_slots=1)
    app = App("governed", [Kind("work", 1, floor.work, int, estimate=needs)])
    with workspace(tmp_path / "w", app) as engine:
        ids = [engine.submit("work", number).job_id for number in range(4)]
        engine.work(slots=2)
        assert [engine.job(id).state for id in ids] == [JobState.COMPLETED] * 4
    assert floor.most == 1
    assert floor.seen == [(1, 1)] * 4


def test_a_plain_kind_is_never_asked(tmp_path: Path) -> None:
    """A job without an estimate runs beside one that holds everything."""
    both = threading.Barrier(2, timeout=20)
    needs = Estimate(io_slots=1)
    kinds = [
        Kind("heavy", 1, lambda context, size: both.wait() and None, int, estimate=needs),
        Kind("plain", 1, lambda context, size: both.wait() and None, int),
    ]
    with workspace(tmp_path / "w", App("governed", kinds)) as engine:
        engine.submit("heavy", 1)
        engine.submit("plain", 1)
        assert engine.work(slots=2).ended == 2


def test_an_impossible_job_fails_with_its_sentence(tmp_path: Path) -> None:
    """What this machine can never hold is FAILED as rejected, its listener hears it, and the rest goes on."""
    heard: list[str] = []
    kinds = [
        Kind("huge", 1, lambda context, size: None, int, estimate=Estimate(memory_bytes=1 << 50)),
        Kind("small", 1, lambda context, size: size, int, estimate=lambda size: Estimate(memory_bytes=size)),
    ]
    with workspace(tmp_path / "w", App("governed", kinds)) as engine:
        engine.on_end(lambda job: heard.append(job.id))
        huge, small = engine.submit("huge", 1).job_id, engine.submit("small", MIB).job_id
        engine.work()
        assert (engine.job(huge).state, engine.job(huge).reason) == (JobState.FAILED, "rejected")
        assert "this machine gives at most" in (engine.job(huge).diagnostic or "")
        assert engine.job(small).state is JobState.COMPLETED
    assert sorted(heard) == sorted([huge, small])


def test_an_invalid_estimate_is_refused_at_submit(tmp_path: Path) -> None:
    """What a kind's function says of an input is checked before anything is stored."""
    kinds = [
        Kind("bad", 1, lambda context, size: None, int, estimate=lambda size: Estimate(threads=size)),
        Kind("broken", 1, lambda context, size: None, int, estimate=lambda size: 1 // size),
        Kind("wrong", 1, lambda context, size: None, int, estimate=lambda size: size),
    ]
    with workspace(tmp_path / "w", App("governed", kinds)) as engine:
        with pytest.raises(InvalidInput, match="estimate: threads: 0, the limit is 1 to 4096"):
            engine.submit("bad", 0)
        with pytest.raises(InvalidInput, match="estimate of broken@1: its function failed, ZeroDivisionError"):
            engine.submit("broken", 0)
        with pytest.raises(InvalidInput, match="estimate of wrong@1: its function gave a int"):
            engine.submit("wrong", 0)
        assert engine.jobs() == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("memory_kept = 1", "governor.memory_kept: no such field"),
        ("io_slots = -1", "governor.io_slots: -1, the limit is 0 to"),
        ("io_slots = 1.5", "give a whole number"),
        ("load_ratio = true", "governor.load_ratio: True"),
    ],
)
def test_a_bad_policy_is_refused_before_anything_is_opened(tmp_path: Path, line: str, said: str) -> None:
    """A table that cannot be carried out names the manifest, the field and its limit."""
    app = App("governed", [])
    perenne.create(tmp_path / "w", app, name="governed")
    manifest = tmp_path / "w" / "workspace.toml"
    manifest.write_text(manifest.read_text() + f"\n[governor]\n{line}\n")
    with pytest.raises(InvalidInput, match="governor") as refused:
        perenne.open(tmp_path / "w", app, access="work")
    assert said in str(refused.value)


def test_an_old_job_with_an_estimate_is_still_asked_for(tmp_path: Path) -> None:
    """A job keeps the estimate it was submitted with, also when its kind has none any more."""
    needs = Estimate(memory_bytes=1 << 50)
    root = tmp_path / "w"
    with workspace(root, App("governed", [Kind("work", 1, lambda c, n: n, int, estimate=needs)])) as engine:
        job = engine.submit("work", 1).job_id
    with perenne.open(root, App("governed", [Kind("work", 1, lambda c, n: n, int)]), access="work") as engine:
        engine.work()
        assert engine.job(job).reason == "rejected"
