"""A rule of retention in the manifest is carried out by workers: checked first, in small steps, by one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Kind, crashpoints, errors, testing
from perenne.core.states import JobState
from perenne.files import workspace as folder
from perenne.files.lock import Lock
from perenne.runtime import retention_rule, tidier
from perenne.runtime.doctor import doctor
from perenne.runtime.pruner import Pruner
from perenne.store import owners as owner_rows
from perenne.store.owners import Owner
from perenne.store.retention import Retention, Rule
from perenne.store.sqlite import inspection

DAY_S = 86_400.0
APP = App("kept", [Kind("note", 1, lambda context, text: text, str)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return testing.workspace(tmp_path / "work", APP)


def set_rule(root: Path, *lines: str) -> None:
    """The table at the end of the manifest, as a person writes it."""
    manifest = folder.read(root).manifest
    head = manifest.read_text().partition("[retention]")[0]
    manifest.write_text("\n".join([head.rstrip("\n"), "[retention]", *lines, ""]))


@pytest.fixture
def tidied() -> Iterator[Callable[[], None]]:
    """Waits until a worker of this process has gone through the rule once."""
    done = threading.Event()
    sound = tidier.Tidier.tidy

    def tidy(self: tidier.Tidier) -> None:
        try:
            sound(self)
        finally:
            done.set()

    def wait() -> None:
        assert done.wait(20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tidier.Tidier, "tidy", tidy)
        yield wait


def finish(root: Path, clock: testing.FakeClock, count: int) -> list[str]:
    """So many jobs that are done."""
    with perenne.open(root, APP, access="work", clock=clock) as engine:
        ids = [engine.submit("note", str(n)).job_id for n in range(count)]
        engine.work(slots=8)
    return ids


def ids(root: Path) -> set[str]:
    with perenne.open(root, APP, access="read") as engine:
        return {job.id for job in engine.jobs()}


def work_until(root: Path, clock: testing.FakeClock, condition: Callable[[], None]) -> None:
    """A worker that stays until the condition holds."""
    with perenne.open(root, APP, access="work", clock=clock) as engine:
        worker = engine.worker()
        thread = threading.Thread(target=worker.run, kwargs={"stay": True})
        thread.start()
        try:
            condition()
        finally:
            worker.stop()
            thread.join(20)
            assert not thread.is_alive()


def test_a_worker_removes_what_is_old(root: Path, tidied: Callable[[], None]) -> None:
    """A worker that stays removes jobs, logs and history beyond the rule by itself; the young and the newest stay."""
    clock = testing.FakeClock()
    old = finish(root, clock, 70)  # more than two steps
    clock.advance(2 * DAY_S)
    young = finish(root, clock, 3)
    set_rule(root, "older_than_days = 1")
    work_until(root, clock, tidied)
    assert ids(root) == set(young)
    logs = {path.stem for path in (root / ".perenne" / "logs").iterdir()}
    assert not logs & set(old)


def test_without_a_rule_everything_is_kept(root: Path) -> None:
    """No rule, no removal, no thread, and no file of it; the doctor says so."""
    clock = testing.FakeClock()
    old = finish(root, clock, 3)
    clock.advance(10_000 * DAY_S)
    finish(root, clock, 1)
    assert ids(root) >= set(old)
    assert not folder.read(root).retention_lock.exists()
    said = {finding.name: finding for finding in doctor(root, APP, inspector=inspection)}["retention"]
    assert (said.verdict, said.sentence) == ("ok", "every job is kept: the manifest has no [retention]")


def test_only_one_worker_is_at_it(root: Path, tidied: Callable[[], None]) -> None:
    """While another process holds the lock of retention, a worker leaves it alone and works."""
    clock = testing.FakeClock()
    old = finish(root, clock, 3)
    finish(root, clock, 1)
    set_rule(root, "keep = 0")
    held = Lock.take(folder.read(root).retention_lock)
    assert held is not None
    with held:
        work_until(root, clock, tidied)
        assert ids(root) >= set(old)
    work_until(root, clock, tidied_again(tidied))
    assert not ids(root) & set(old)


def tidied_again(tidied: Callable[[], None]) -> Callable[[], None]:
    """The event of the fixture stands already, so the work of this time is waited for by its history."""
    passed = threading.Event()

    def observer(name: str) -> None:
        if name == "purge.committed":
            passed.set()

    def wait() -> None:
        assert passed.wait(20)
        crashpoints.observe(None)

    crashpoints.observe(observer)
    return wait


def test_a_worker_ends_between_two_steps(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is told to stop does not wait for all to be removed; the rest is for the next one."""
    clock = testing.FakeClock()
    finish(root, clock, 40)
    set_rule(root, "keep = 0")
    monkeypatch.setattr(tidier, "STEP_JOBS", 1)
    first = threading.Event()
    crashpoints.observe(lambda name: first.set() if name == "purge.committed" else None)
    try:
        work_until(root, clock, lambda: None if first.wait(20) else pytest.fail("nothing was removed"))
    finally:
        crashpoints.observe(None)
    assert 1 < len(ids(root)) < 40


def test_a_removal_that_fails_is_noted_and_harms_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch, tidied: Callable[[], None]
) -> None:
    """Where the removal fails, the worker works on, and its log says why."""
    clock = testing.FakeClock()
    finish(root, clock, 2)
    set_rule(root, "keep = 0")

    def refuse(*_: object, **__: object) -> None:
        raise errors.StoreFailed("no")

    monkeypatch.setattr(tidier.Pruner, "purge", refuse)
    work_until(root, clock, tidied)
    assert finish(root, clock, 1)
    assert "retention_failed" in (root / ".perenne" / "logs" / "engine.jsonl").read_text()


def test_every_field_of_the_rule(root: Path) -> None:
    """Age, number, states and history are read from the manifest, and the doctor says them in words."""
    set_rule(root, "older_than_days = 1.5", "keep = 10", 'states = ["FAILED", "DEAD"]', "keep_history = true")
    rule = retention_rule.of(folder.read(root))
    assert rule == Rule(older_than_s=1.5 * DAY_S, keep=10, states=(JobState.FAILED, JobState.DEAD), history="kept")
    said = {finding.name: finding for finding in doctor(root, APP, inspector=inspection)}["retention"]
    assert said.sentence == (
        "workers remove jobs that ended more than 1.5 days ago and are not among the newest 10 (FAILED, DEAD); "
        "their history is kept"
    )


SPELT_OUT = {
    "DAYS": ", the limit is 0 to 11574 days; give a number in it",
    "KEEP": ", the limit is 0 to 2147483648; give a whole number in it, or leave it out",
    "STATES": "; give some states of finished jobs: CANCELLED, COMPLETED, DEAD, FAILED",
    "FIELDS": "no such field; known are older_than_days, keep, states, keep_history",
}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "older_than_days: neither it nor keep is given; give an age, a number of jobs to keep, or both"),
        ("keep = -1", "keep: -1KEEP"),
        ("keep = true", "keep: TrueKEEP"),
        ("keep = 1.5", "keep: 1.5KEEP"),
        ("older_than_days = '3'", "older_than_days: '3'DAYS"),
        ("older_than_days = -1", "older_than_days: -1DAYS"),
        ("older_than_days = nan", "older_than_days: nanDAYS"),
        ("older_than_days = 2e4", "older_than_days: 20000.0DAYS"),
        ("keep = 1\nstates = 'DEAD'", "states: 'DEAD'STATES"),
        ("keep = 1\nstates = ['GONE']", "states: ['GONE']STATES"),
        ("keep = 1\nstates = ['QUEUED']", "states: ['QUEUED']STATES"),
        ("keep = 1\nstates = [['DEAD']]", "states: [['DEAD']]STATES"),
        ("keep = 1\nstates = []", "states: ()STATES"),
        ("keep = 1\nkeep_history = 1", "keep_history: 1; give true or false"),
        ("age = 1", "age: FIELDS"),
    ],
)  # fmt: skip
def test_a_bad_rule_is_refused_before_anything_is_opened(root: Path, line: str, sentence: str) -> None:
    """No worker starts under a rule that cannot be meant, and the doctor says what is wrong; others may still look."""
    set_rule(root, line)
    with pytest.raises(errors.InvalidInput) as refused:
        perenne.open(root, APP, access="work")
    for short, long in SPELT_OUT.items():
        sentence = sentence.replace(short, long)
    assert str(refused.value) == f"{root / 'workspace.toml'}: retention.{sentence}"
    perenne.open(root, APP, access="read").close()
    said = {finding.name: finding for finding in doctor(root, APP, inspector=inspection)}["retention"]
    assert said.verdict == "bad"


def test_a_table_is_wanted(root: Path) -> None:
    """A value in the place of the table is refused like any other wrong manifest."""
    manifest = folder.read(root).manifest
    manifest.write_text(manifest.read_text() + "retention = 30\n")
    with pytest.raises(errors.StoreForeign, match="retention: 30 is not a dict"):
        perenne.open(root, APP)


def owners(place: Any) -> set[str]:
    return {row[0] for row in place.rows("select id from owner")}


def test_workers_that_left_and_ran_nothing_kept_are_forgotten(place: Any) -> None:
    """With the jobs go the rows and lock files of workers that left; who lives, or ran what is kept, stays."""
    place.complete()
    place.submit()
    others = [Owner(f"{n:08d}-1111-4111-8111-111111111111", 1, "boot", "1") for n in range(4)]
    for other in others:
        place.owners.join(other, now=place.now)
    for other in others[:3]:
        place.owners.leave(other.id, now=place.tick())
    left, lives_on = place.workspace.lock_of(others[1].id), Lock.take(place.workspace.lock_of(others[2].id))
    left.touch()
    pruner = Pruner(place.workspace, Retention(place.driver), place.clock(), "person:test", lambda seconds: None)
    place.tick()
    assert pruner.purge(Rule(older_than_s=DAY_S)).owners == 0
    assert pruner.purge(Rule(keep=1)).owners == 2
    assert owners(place) == {place.owner.id, others[2].id, others[3].id}
    assert not left.exists()
    assert lives_on is not None
    lives_on.release()
    place.owners.leave(place.owner.id, now=place.tick())
    place.tick()
    assert pruner.purge(Rule(keep=0)).owners == 2
    assert owners(place) == {others[3].id}


def test_workers_are_not_looked_for_in_a_long_list(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each row that goes would cost a look through too many attempts, none goes."""
    place.complete()
    place.owners.leave(place.owner.id, now=place.tick())
    monkeypatch.setattr(owner_rows, "LOOKED_THROUGH", 0)
    assert place.owners.forgettable(left_before=place.tick()) == ([], 0)
