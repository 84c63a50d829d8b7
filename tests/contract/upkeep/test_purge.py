"""What is final and old goes in bounded steps: whole jobs, never one that is needed, and it is written down."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import Submission
from perenne.core.states import JobState
from perenne.errors import InvalidInput, StoreFailed
from perenne.runtime.pruner import Pruner
from perenne.store import retention
from perenne.store.notices import Notices
from perenne.store.retention import Removed, Retention, Rule

EVERYTHING = Rule(keep=0)
PURGE = ["purge_candidates", "purge_edge", "purge_sizes", "named_by_others"] + [
    f"{verb}_of" for verb in ("delete_notices", "delete_births", "delete_history", "detach_births", "detach_history")
]
DAY_S = 86_400.0


def purge(place: Any, rule: Rule, **values: Any) -> Removed:
    pruner = Pruner(place.workspace, Retention(place.driver), place.clock(), "person:test", lambda seconds: None)
    return pruner.purge(rule, **values)


def last(place: Any) -> str:
    """A waiting job that is submitted last, so that any other may go."""
    return str(place.submit())


def is_sound(place: Any) -> None:
    """Every row belongs to a job that stands, every count is right, and the file is whole."""
    assert place.rows("pragma integrity_check") == [("ok",)]
    assert place.rows("pragma foreign_key_check") == []
    unfinished = [job for job in place.reader.jobs(limit=100_000) if not job.is_final]
    assert sum(queue.unfinished for queue in place.reader.queues()) == len(unfinished)
    for table in ("attempt", "dependency", "notice"):
        assert place.rows(f"select count(*) from {table} where job not in (select seq from job)") == [(0,)]


def test_old_ones_go_young_ones_stay(place: Any) -> None:
    """A rule by age removes jobs that ended longer ago, with their attempts and history, and no others."""
    old = [place.complete() for _ in range(3)]
    place.tick(DAY_S)
    young, waiting = place.complete(), last(place)
    removed = purge(place, Rule(older_than_s=DAY_S / 2))
    assert removed == Removed(jobs=3, attempts=3, history=9)
    assert place.ids() == {young, waiting}
    assert {line.job_id for line in place.reader.history()} == {young, waiting, None}
    assert not [row for row in place.rows("select subject from history") if row[0].removeprefix("job:") in old]
    is_sound(place)


def test_newest_are_kept_by_number(place: Any) -> None:
    """A rule by number keeps the newest that ended, counted among the states it names."""
    done = [place.complete() for _ in range(5)]
    cancelled = [place.cancel(place.submit()) for _ in range(5)]
    waiting = last(place)
    purge(place, Rule(keep=2, states=(JobState.COMPLETED,)))
    assert place.ids() == {*done[-2:], *cancelled, waiting}
    purge(place, Rule(keep=3))
    assert place.ids() == {*cancelled[-3:], waiting}
    is_sound(place)


def test_age_and_number_bind_together(place: Any) -> None:
    """With both bounds a job goes only when it is older than the one and beyond the other."""
    old = [place.complete() for _ in range(4)]
    place.tick(DAY_S)
    young = [place.complete() for _ in range(4)]
    waiting = last(place)
    purge(place, Rule(older_than_s=3600, keep=6))
    assert place.ids() == {*old[-2:], *young, waiting}
    purge(place, Rule(older_than_s=3600, keep=1))
    assert place.ids() == {*young, waiting}


def test_only_the_states_it_names(place: Any) -> None:
    """A rule by state removes jobs in those states and leaves every other one."""
    done, cancelled = place.complete(), place.cancel(place.submit())
    failed = place.submit()
    place.end(place.claim(), events.GaveUp("no"))
    waiting = last(place)
    purge(place, Rule(keep=0, states=(JobState.FAILED, JobState.DEAD)))
    assert place.ids() == {done, cancelled, waiting}
    assert failed not in place.ids()


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (Rule(), "older_than_s"),
        (Rule(older_than_s=-1.0), "older_than_s"),
        (Rule(older_than_s=float("nan")), "older_than_s"),
        (Rule(older_than_s=float("inf")), "older_than_s"),
        (Rule(older_than_s="1 day"), "older_than_s"),  # type: ignore[arg-type]
        (Rule(keep=1.5), "keep"),  # type: ignore[arg-type]
        (Rule(keep=0, states=None), "states"),  # type: ignore[arg-type]
        (Rule(keep=-1), "keep"),
        (Rule(keep=1 << 40), "keep"),
        (Rule(keep=0, states=()), "states"),
        (Rule(keep=0, states=(JobState.COMPLETED, JobState.QUEUED)), "states"),
        (Rule(keep=0, history="burnt"), "history"),  # type: ignore[arg-type]
    ],
)
def test_bad_rule_is_refused(place: Any, rule: Rule, field: str) -> None:
    """A rule without a bound, with a bad bound or with a state that is not final is refused by field; nothing goes."""
    place.complete()
    last(place)
    before = place.ids()
    with pytest.raises(InvalidInput, match=rf"^{field}: ") as refused:
        purge(place, rule)
    assert refused.value.field == field
    assert place.ids() == before


@pytest.mark.parametrize("step", [0, -1, 100_000])
def test_bad_step_is_refused(place: Any, step: int) -> None:
    """A step of no job, or of more than a transaction may hold, is refused."""
    with pytest.raises(InvalidInput, match=r"^step: "):
        purge(place, EVERYTHING, step=step)


def test_unfinished_jobs_never_go(place: Any) -> None:
    """However old, a job that is not final stays, whatever the rule."""
    running = place.submit()
    place.claim()
    blocked = place.submit(running)
    paused = place.submit()
    place.ledger.tell(paused, events.Pause(), now=place.tick(), actor="person:test")
    doubted = place.submit()
    place.end(place.claim(), events.Doubted("which one"))
    place.tick(100 * DAY_S)
    assert purge(place, Rule(older_than_s=0, keep=0)) == Removed()
    assert place.ids() == {running, blocked, paused, doubted}


def test_what_an_unfinished_job_needs_stays(place: Any) -> None:
    """A finished job stays while an unfinished job depends on it, and while a finished one that stays names it."""
    needed = place.complete()
    paused = place.submit(needed)
    place.ledger.tell(paused, events.Pause(), now=place.tick(), actor="person:test")
    failed_first = place.submit()
    place.end(place.claim(), events.GaveUp("no"))
    failed_then = place.submit(failed_first, on_dependency="fail")
    free = place.complete()
    waiting = last(place)
    purge(place, Rule(keep=0, states=(JobState.COMPLETED,)))
    assert place.ids() == {needed, paused, failed_first, failed_then, waiting}
    assert free not in place.ids()
    assert place.reader.job(paused).unmet == 0
    place.ledger.tell(paused, events.Cancel(), now=place.tick(), actor="person:test")
    purge(place, EVERYTHING)
    assert place.ids() == {waiting}
    is_sound(place)


def test_a_child_stays_until_its_parent_has_ended(place: Any) -> None:
    """A parent that is still to run may ask for its child again, and finds it; after its end the child goes."""
    parent = place.submit()
    token = place.claim()
    wanted = Submission(id="33333333-3333-4333-8333-333333333333", kind="child", version=1, input=b"{}", parent=parent)
    place.ledger.submit_many([wanted], now=place.tick(), actor=f"job:{parent}", token=token)
    place.cancel(wanted.id)
    waiting = last(place)
    purge(place, EVERYTHING)
    assert place.ids() == {parent, wanted.id, waiting}
    place.end(token, events.Returned())
    purge(place, EVERYTHING)
    assert place.ids() == {waiting}


@pytest.mark.parametrize("step", [1, 2, 7, 256])
def test_chains_go_from_their_end(place: Any, step: int) -> None:
    """A chain of finished jobs goes whole, in steps of any size, dependants before what they waited for."""
    chain = [place.complete()]
    for _ in range(6):
        chain.append(place.complete(chain[-1]))
    fan = [place.complete(*chain[-3:]) for _ in range(3)]
    waiting = last(place)
    removed = purge(place, EVERYTHING, step=step)
    assert (removed.jobs, removed.dependencies) == (10, 6 + 9)
    assert place.ids() == {waiting}
    assert not set(chain) & set(fan)
    is_sound(place)


def test_job_goes_although_what_waited_for_it_ended_first(place: Any) -> None:
    """A job goes too when what waited for it was cancelled before it ended: passes go on until nothing is set free."""
    first = place.submit()
    second = place.submit(first)
    third = place.submit(second)
    place.cancel(third)
    place.cancel(second)
    place.end(place.claim(), events.Returned())
    waiting = last(place)
    assert purge(place, EVERYTHING, step=1).jobs == 3
    assert place.ids() == {waiting}


def test_newest_job_stays_so_that_no_place_is_given_twice(place: Any) -> None:
    """The job submitted last stays until another one is submitted: places and revisions only grow."""
    done = [place.complete() for _ in range(3)]
    places = [job.seq for job in place.reader.jobs()]
    revision = place.reader.revision()
    assert purge(place, EVERYTHING).jobs == 2
    assert place.ids() == {done[-1]}
    assert place.reader.revision() > revision
    revision = place.reader.revision()
    fresh = place.submit()
    assert place.reader.job(fresh).seq > max(places)
    assert place.reader.revision() > revision
    assert purge(place, EVERYTHING).jobs == 1


def test_revision_grows_although_the_newest_lines_go(place: Any) -> None:
    """When the newest lines of all belong to jobs that go, the line of the purge still comes after them."""
    old, waiting = place.submit(), place.submit()
    place.cancel(old)
    revision = place.reader.revision()
    purge(place, EVERYTHING)
    assert place.ids() == {waiting}
    assert [(line.seq, line.verb) for line in place.reader.history()][-1] == (revision + 1, "purge")


def test_history_can_be_kept(place: Any) -> None:
    """With history kept, every line of a removed job stays and its subject still names the job."""
    id = place.complete()
    last(place)
    lines = [line.verb for line in place.reader.history(job_id=id)]
    removed = purge(place, Rule(keep=0, history="kept"))
    assert (removed.jobs, removed.history) == (1, 0)
    kept = [line for line in place.reader.history() if line.subject == f"job:{id}"]
    assert [line.verb for line in kept] == lines == ["submit", "claim", "complete"]
    assert {line.job_id for line in kept} == {None}
    is_sound(place)


def test_removal_is_written_down_once(place: Any) -> None:
    """A purge of many steps leaves one line about the workspace, with who, when, the rule and the exact sums."""
    for _ in range(7):
        place.complete()
    last(place)
    place.tick()
    purge(place, Rule(older_than_s=0, keep=1), step=2)
    lines = [line for line in place.reader.history() if line.verb == "purge"]
    assert [(line.subject, line.actor, line.at) for line in lines] == [("workspace", "person:test", place.now)]
    assert lines[0].reason == (
        "removed 6 jobs, 6 attempts, 0 dependencies, 0 notices, 18 lines of history "
        "(CANCELLED, COMPLETED, DEAD, FAILED; ended more than 0 s ago and not among the newest 1; history pruned)"
    )
    purge(place, EVERYTHING)
    assert len([line for line in place.reader.history() if line.verb == "purge"]) == 2


def test_nothing_to_remove_writes_nothing(place: Any) -> None:
    """A purge that finds nothing leaves no line and takes no write lock."""
    place.complete()
    revision = place.reader.revision()
    assert purge(place, Rule(older_than_s=DAY_S)) == Removed()
    assert purge(place, Rule(keep=10)) == Removed()
    assert place.reader.revision() == revision


def test_notices_go_with_their_job(place: Any) -> None:
    """Notices that nobody fetched go with their job and are counted; those of other jobs stay."""
    Notices(place.driver).register("listener", now=place.now)
    place.complete()
    place.complete()
    last(place)
    assert purge(place, Rule(keep=1)).notices == 1
    assert len(Notices(place.driver).pending("listener", 10)) == 1


def test_logs_go_with_their_job(place: Any) -> None:
    """The log of a removed job is removed, those of others stay."""
    gone, stays = place.complete(), last(place)
    for id in (gone, stays):
        place.workspace.log_of(id).write_text("{}\n")
    purge(place, EVERYTHING)
    assert [path.name for path in place.workspace.log_of(gone).parent.iterdir()] == [f"{stays}.jsonl"]


def test_log_that_cannot_be_removed_is_named(place: Any) -> None:
    """A log that cannot be removed is named with the next step; the job itself is gone."""
    gone = place.complete()
    last(place)
    place.workspace.log_of(gone).mkdir()
    with pytest.raises(StoreFailed, match=f"{gone}.jsonl"):
        purge(place, EVERYTHING)
    assert gone not in place.ids()


def test_steps_are_bounded_in_jobs_and_rows(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction removes more jobs than the step, nor more rows than the bound, but for one job that has more."""
    monkeypatch.setattr(retention, "STEP_ROWS", 20)
    for _ in range(20):
        place.complete()  # five rows each
    big = place.submit()
    for _ in range(30):
        place.ledger.tell(big, events.Pause(), now=place.tick(), actor="person:test")
        place.ledger.tell(big, events.Resume(), now=place.tick(), actor="person:test")
    place.cancel(big)
    last(place)
    steps = [gone for gone, _ in Retention(place.driver).purge(EVERYTHING, now=place.now, actor="person:test", step=3)]
    rows = [one.jobs + one.attempts + one.dependencies + one.notices + one.history for one in steps]
    assert max(one.jobs for one in steps) == 3
    assert max(count for count, one in zip(rows, steps, strict=True) if one.jobs > 1) <= 20
    assert [count for count in rows if count > 20] == [63]
    assert sum(one.jobs for one in steps) == 21


def test_job_started_again_between_looking_and_removing_stays(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes between the choice and the write is seen under the lock: that job stays, the others go."""
    failed, other = place.submit(), place.submit()
    for _ in range(2):
        place.end(place.claim(), events.GaveUp("no"))
    needed = place.complete()
    waiting = last(place)
    write = place.driver.write

    def interfered(work: Callable[..., Any], **values: Any) -> Any:
        monkeypatch.setattr(place.driver, "write", write)
        place.ledger.tell(failed, events.Requeue("again"), now=place.tick(), actor="person:test")
        place.submit(needed)
        return write(work, **values)

    monkeypatch.setattr(place.driver, "write", interfered)
    removed = purge(place, EVERYTHING)
    assert removed.jobs == 1
    assert {failed, needed, waiting} < place.ids()
    assert other not in place.ids()
    is_sound(place)


@pytest.mark.parametrize("point", ["purge.written", "purge.committed", "purge.log_removed"])
@pytest.mark.parametrize("passage", [1, 2, 3])
def test_killed_between_and_inside_steps(make: Callable[..., Any], trouble: Any, point: str, passage: int) -> None:
    """Killed at any point of any step, whole jobs are gone or stand, and the next purge ends it with one more line."""
    place = make()
    ids = [place.complete() for _ in range(6)]
    waiting = last(place)
    for id in ids:
        place.workspace.log_of(id).write_text("{}\n")
    place.close()

    def work() -> None:
        purge(make(again=True), EVERYTHING, step=2)

    assert trouble.dies_at(f"{point}:{passage}", work)
    place = make(again=True)
    is_sound(place)
    whole = passage - 1 if point == "purge.written" else (passage + 1) // 2 if point == "purge.log_removed" else passage
    assert len(place.ids()) == 7 - 2 * whole
    lines = [line.reason for line in place.reader.history() if line.verb == "purge"]
    assert len(lines) == min(whole, 1)
    assert all(line.startswith(f"removed {2 * whole} jobs, {2 * whole} attempts") for line in lines)
    assert purge(place, EVERYTHING, step=2).jobs == 6 - 2 * whole
    assert place.ids() == {waiting}
    is_sound(place)


def test_step_whose_commit_failed_half_way_can_be_told(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is told how to find out whether a step stands: its jobs are gone, or they are not."""
    ids = [place.complete() for _ in range(3)]
    last(place)
    write, told = place.driver.write, []

    def watched(work: Callable[..., Any], *, recheck: Callable[..., bool]) -> Any:
        told.append(place.driver.read(lambda tx: recheck(tx, (None, tuple(ids), None))))
        answer = write(work, recheck=recheck)
        told.append(place.driver.read(lambda tx: recheck(tx, answer)))
        return answer

    monkeypatch.setattr(place.driver, "write", watched)
    purge(place, EVERYTHING)
    assert told == [False, True]


@pytest.mark.parametrize("point", ["purge.written", "purge.committed"])
def test_failing_step_leaves_whole_jobs(place: Any, trouble: Any, point: str) -> None:
    """An error in the middle of a step undoes that step or comes after it; the same engine purges on."""
    for _ in range(6):
        place.complete()
    waiting = last(place)
    with trouble.fails_at(point), pytest.raises(RuntimeError, match="injected"):
        purge(place, EVERYTHING, step=2)
    assert len(place.ids()) == (7 if point == "purge.written" else 5)
    is_sound(place)
    purge(place, EVERYTHING, step=2)
    assert place.ids() == {waiting}


WRITER = """
import sys, time
from perenne.files import workspace
from perenne.store.ledger import Ledger
from perenne.store.sqlite.driver import SQLiteDriver
found = workspace.read(__import__("pathlib").Path(sys.argv[1]))
ledger = Ledger(SQLiteDriver(found.ledger, workspace=found.id))
print("ready", flush=True)
worst = count = 0
while not sys.stdin.readline().startswith("stop"):
    for _ in range(20):
        began = time.monotonic()
        ledger.add_queue(f"queue {count}", 10)
        worst, count = max(worst, time.monotonic() - began), count + 1
    print(worst, flush=True)
"""


def test_other_writers_get_through_between_steps(place: Any) -> None:
    """While a purge goes on, another process commits again and again and never waits for the whole of it."""
    for _ in range(160):
        place.cancel(place.submit())
    last(place)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(place.workspace.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(retention.__file__).parents[2])},
    ) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        pruner = Pruner(place.workspace, Retention(place.driver), place.clock(), "person:test")
        during: list[float] = []
        purging = threading.Thread(target=lambda: pruner.purge(EVERYTHING, step=8))
        purging.start()
        while purging.is_alive():
            other.stdin.write("go\n")
            other.stdin.flush()
            during.append(float(other.stdout.readline()))
        other.stdin.write("stop\n")
        other.stdin.flush()
        other.wait(10)
    assert place.reader.counts() == {JobState.QUEUED: 1}
    assert len(during) >= 2
    assert max(during) < 2.0
    assert len(place.reader.queues()) >= 20 * len(during)


@pytest.mark.parametrize("name", PURGE)
def test_purge_never_walks_over_all_jobs(place: Any, name: str) -> None:
    """Each statement of a purge finds its rows by an index; none scans a table."""
    from perenne.store.sqlite.driver import queries

    values = {"states": "[]", "jobs": "[]", "needs": 1, "keep": 1, "before_at": 0, "before_seq": 0, "limit": 1}
    used = {key: value for key, value in values.items() if f":{key}" in queries()[name]}
    plan = place.driver.read(lambda tx: tx._execute("explain query plan " + queries()[name], used).fetchall())
    steps = [row[3] for row in plan]
    assert not [step for step in steps if step.startswith("SCAN") and "json_each" not in step and "INDEX" not in step]


def test_many_jobs_at_their_own_pace(place: Any) -> None:
    """Thousands of jobs go in steps of 256 within seconds, none of which looks through the lines of all others."""
    place.fill(20_000, "case i % 2 when 0 then 'COMPLETED' else 'FAILED' end")
    last(place)
    started = time.monotonic()
    assert purge(place, Rule(keep=0, states=(JobState.COMPLETED,))).jobs == 10_000
    assert time.monotonic() - started < 5
    assert place.reader.counts() == {JobState.FAILED: 10_000, JobState.QUEUED: 1}
