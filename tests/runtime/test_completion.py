"""`context.complete(result, also=…)`: the app's rows stand in the transaction that completes the job, or nowhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Backoff, Context, JobState, Kind, Published, testing
from perenne.core import limits
from perenne.errors import Cancelled

S = JobState
TABLE = ["create table mill_flour (job text primary key, grams integer not null check (grams > 0))"]
Also = Callable[[Any], object]


def pour(context: Context, grams: int) -> Also:
    return lambda tables: tables.execute("insert into mill_flour values (?, ?)", (context.job_id, grams))


class Mill:
    """A workspace whose one kind does what the test says; its log of ends."""

    def __init__(self, folder: Path) -> None:
        self.handle: Callable[[Context, int], object] = lambda context, input: None
        kinds = [
            Kind("mill.grind", 1, lambda c, i: self.handle(c, i), int, max_attempts=2, backoff=Backoff(1.0, 1.0)),
            Kind("mill.found", 1, lambda c, i: self.handle(c, i), int, lookup=lambda p: Published.absent()),
        ]
        self.app = App("mill", kinds, migrations=TABLE)
        self.clock = testing.FakeClock()
        self.root = testing.workspace(folder, self.app)
        self.engine = perenne.open(self.root, self.app, access="work", clock=self.clock)
        self.ends: list[str] = []
        self.engine.on_end(lambda job: self.ends.append(job.id))

    def grind(self, handle: Callable[[Context, int], object], grams: int = 5, kind: str = "mill.grind") -> perenne.Job:
        self.handle = handle
        job_id = self.engine.submit(kind, grams).job_id
        testing.drain(self.engine, clock=self.clock)
        return self.engine.job(job_id)

    def flour(self) -> list[Any]:
        with self.engine.transaction() as tx:
            return tx.execute("select job, grams from mill_flour order by job")


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    made = Mill(tmp_path / "w")
    yield made
    made.engine.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOCK_S", 20.0)


pytestmark = pytest.mark.usefixtures("patient")


def test_result_and_rows_are_there_together(mill: Mill) -> None:
    """The job is COMPLETED with its result, the row is there, and the end is told once."""
    job = mill.grind(lambda context, grams: context.complete({"grams": grams}, also=pour(context, grams)))
    assert (job.state, job.result, job.number) == (S.COMPLETED, b'{"grams":5}', 1)
    assert mill.flour() == [(job.id, 5)]
    assert mill.ends == [job.id]
    assert [line.verb for line in mill.engine.history(job_id=job.id)] == ["submit", "claim", "complete"]
    assert mill.engine.attempts(job.id)[0].outcome == "completed"


def test_without_also_it_is_a_plain_result(mill: Mill) -> None:
    """`complete` with a result alone is as returning it; a handler that returns nothing afterwards means it, too."""
    assert mill.grind(lambda context, grams: context.complete([1])).result == b"[1]"

    def forgets(context: Context, grams: int) -> None:
        context.complete(2, also=pour(context, grams))

    job = mill.grind(forgets)
    assert (job.result, mill.flour()) == (b"2", [(job.id, 5)])


def raises_after(context: Context, grams: int) -> object:
    context.complete(also=pour(context, grams))
    raise ValueError("after all")


def returns_another(context: Context, grams: int) -> object:
    context.complete(also=pour(context, grams))
    return 7


def twice(context: Context, grams: int) -> object:
    context.complete(also=pour(context, grams))
    return context.complete(also=pour(context, grams))


def unencodable(context: Context, grams: int) -> object:
    return context.complete(object(), also=pour(context, grams))


def too_large(context: Context, grams: int) -> object:
    return context.complete("x" * (256 * 1024), also=pour(context, grams))


@pytest.mark.parametrize(
    ("handle", "attempts", "why"),
    [
        (raises_after, 2, "after all"),
        (returns_another, 1, "returned something else"),
        (twice, 1, "called before"),
        (unencodable, 1, "result: "),
        (too_large, 1, "result: "),
    ],
)
def test_an_end_that_is_no_completion_writes_no_row(mill: Mill, handle: Any, attempts: int, why: str) -> None:
    """A handler that fails in any way leaves no row, and the reason is kept."""
    job = mill.grind(handle)
    assert (job.state, job.number, mill.flour()) == (S.FAILED, attempts, [])
    assert why in (job.diagnostic or "")


def wrong_rule(context: Context, grams: int) -> object:
    return context.complete(also=lambda tables: (pour(context, 1)(tables), pour(context, -1)(tables)))


def foreign_table(context: Context, grams: int) -> object:
    return context.complete(also=lambda tables: (pour(context, 1)(tables), tables.execute("delete from job")))


def own_error(context: Context, grams: int) -> object:
    return context.complete(also=lambda tables: (pour(context, 1)(tables), 1 / 0))


def ends_itself(context: Context, grams: int) -> object:
    return context.complete(also=lambda tables: (pour(context, 1)(tables), sys.exit(3)))


def cancels_itself(context: Context, grams: int) -> object:
    def also(tables: Any) -> None:
        pour(context, 1)(tables)
        raise Cancelled

    return context.complete(also=also)


@pytest.mark.parametrize(
    ("handle", "attempts", "why"),
    [
        (wrong_rule, 2, "CHECK"),
        (foreign_table, 2, "only tables mill_…"),
        (own_error, 2, "ZeroDivisionError"),
        (ends_itself, 1, "SystemExit"),
        (cancels_itself, 1, "Cancelled"),
    ],
)
def test_also_that_fails_undoes_all_and_is_a_failed_attempt(mill: Mill, handle: Any, attempts: int, why: str) -> None:
    """Neither its first row nor the completion stands; the attempt failed, and is retried as the kind says."""
    job = mill.grind(handle)
    assert (job.state, job.number, mill.flour()) == (S.FAILED, attempts, [])
    assert why in (job.diagnostic or "")
    assert [attempt.outcome for attempt in mill.engine.attempts(job.id)] == ["failed"] * attempts
    assert mill.grind(lambda context, grams: 1).state is S.COMPLETED


def test_a_second_attempt_may_complete(mill: Mill) -> None:
    """After a failed `also` the next attempt writes its rows, once."""

    def handle(context: Context, grams: int) -> object:
        return context.complete(also=own_error if context.attempt == 1 else pour(context, grams))  # type: ignore[arg-type]

    job = mill.grind(handle)
    assert (job.state, job.number, mill.flour()) == (S.COMPLETED, 2, [(job.id, 5)])


def test_a_cancelled_job_is_not_completed_by_its_rows(mill: Mill) -> None:
    """A cancel that came before the end wins, as ever, and `also` is not called."""

    def handle(context: Context, grams: int) -> object:
        mill.engine.cancel(context.job_id)
        return context.complete(also=pour(context, grams))

    job = mill.grind(handle)
    assert (job.state, mill.flour()) == (S.CANCELLED, [])


def test_also_of_an_attempt_that_lost_its_right_is_not_called(mill: Mill) -> None:
    """An attempt that was settled meanwhile writes no row; its report is dropped."""

    def handle(context: Context, grams: int) -> object:
        mill.engine._driver.write(lambda tx: tx.run("set_store_controls", paused=0, stopped=0))
        beside = perenne.open(mill.root, mill.app)
        token, found = context._token, perenne.core.events.Interrupted(Published.absent())  # type: ignore[attr-defined]
        beside._ledger.settle(token, found, now=mill.clock.now(), actor="worker:other")
        beside.close()
        return context.complete(also=pour(context, grams + context.attempt))

    job = mill.grind(handle)
    assert (job.state, mill.flour()) == (S.DEAD, [])


def test_a_kind_that_is_looked_up_writes_its_rows_elsewhere(mill: Mill) -> None:
    """Where recovery completes a job because it is published, `also` could be missed; so it is refused at once."""
    job = mill.grind(lambda context, grams: context.complete(also=pour(context, grams)), kind="mill.found")
    assert (job.state, job.number, mill.flour()) == (S.FAILED, 1, [])
    assert "final publication" in (job.diagnostic or "")


def test_also_past_its_time_is_undone_while_others_go_on(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs keeps neither the lock nor the worker; its attempt fails, by name of the limit."""
    monkeypatch.setattr(limits, "BLOCK_S", 0.05)
    go_on = threading.Event()

    def also(tables: Any) -> None:
        assert go_on.wait(20)
        tables.execute("select 1")

    def handle(context: Context, grams: int) -> object:
        return context.complete(also=also) if grams == 5 else grams

    mill.handle = handle
    slow = mill.engine.submit("mill.grind", 5).job_id
    worker = threading.Thread(target=mill.engine.work, kwargs={"slots": 2, "stay": True})
    worker.start()
    until = time.monotonic() + 20
    while mill.engine.job(slow).state is not S.RUNNING:
        assert time.monotonic() < until
        time.sleep(0.001)  # reason: nobody rings when a job is claimed
    quick = mill.engine.submit("mill.grind", 1).job_id
    assert mill.engine.wait(quick, 20).state is S.COMPLETED
    go_on.set()
    mill.engine.stop()
    worker.join(20)
    assert "longer than 50 ms" in (mill.engine.job(slow).diagnostic or "")
    assert mill.engine.job(slow).state is S.RETRY_WAIT
