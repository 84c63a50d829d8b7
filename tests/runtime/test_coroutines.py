"""Handlers that are coroutines: they run together on one loop, and whatever one does, its worker goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import perenne
from perenne import App, AsyncContext, Job, JobState, Kind, Publication, Published, testing
from perenne.errors import InvalidInput, StaleToken
from perenne.runtime import drain, loopwatch
from perenne.runtime.turns import Turns

Trial = Any
MakeKind = Callable[..., Kind]
S = JobState
LIMIT_S = 20.0


class Gate:
    """Opened by a test or a handler, and awaited in the loop with a limit."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        self.reached = threading.Event()

    async def passed(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.reached.set()
        await asyncio.wait_for(self._event.wait(), LIMIT_S)

    def open(self) -> None:
        assert self.reached.wait(LIMIT_S)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._event.set)


def work_once(trial: Trial, kind: Kind, **how: Any) -> Job:
    """The job once the worker found nothing that was due; time passes."""
    with trial.open(kind, real_time=True) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work(**how)
        found: Job = engine.job(job_id)
        return found


@pytest.fixture
def until_done(trial: Trial, in_thread: Any) -> Callable[..., Any]:
    """`until_done(kind, meanwhile)`: the job after a worker ran it, and its report; `meanwhile` gets both early."""

    def run(kind: Kind, meanwhile: Callable[..., None]) -> tuple[Job, Any]:
        with trial.open(kind, real_time=True) as engine:
            job_id = engine.submit(kind, None).job_id
            worker = engine.worker()
            running = in_thread(lambda: worker.run(stay=False))
            meanwhile(engine, job_id, worker)
            report = running.result()
            return engine.job(job_id), report

    return run


def test_a_coroutine_runs_and_its_result_is_kept(trial: Trial, make_kind: MakeKind) -> None:
    """E-R2: what a coroutine returns is the result of its job; its verbs are awaited."""

    async def handler(context: AsyncContext, input: object) -> int:
        await context.boundary()
        await context.progress(1, 2, "half")
        await context.log("said")
        return context.attempt

    job = trial.run(make_kind(handler))
    assert (job.state, job.result, job.progress_done, job.progress_message) == (S.COMPLETED, b"1", 1, "half")
    assert [line["message"] for line in trial.log(job.id)] == ["said"]


def test_a_task_may_be_a_coroutine_function(tmp_path: Any) -> None:
    """`@app.task()` takes `async def`; called, it is awaited as the function it is."""
    app = App("sums")

    @app.task()
    async def add(context: AsyncContext, a: int, b: int = 2) -> int:
        await asyncio.sleep(0)
        return a + b

    root = testing.workspace(tmp_path / "work", app)
    with perenne.open(root, app, access="work") as engine:
        receipt = add.enqueue(1)
        testing.drain(engine)
        assert engine.job(receipt.job_id).result == b"3"
    assert asyncio.run(add(None, 2, 3)) == 5  # type: ignore[arg-type]


def test_coroutines_wait_together_and_in_no_slot(trial: Trial, make_kind: MakeKind) -> None:
    """One slot and many coroutines that wait for each other: all of them run at the same time, and a thread as well."""
    count, here = 200, []
    everybody = asyncio.Event()

    async def meet(context: AsyncContext, input: object) -> int:
        here.append(threading.current_thread().name)
        if len(here) == count:
            everybody.set()
        await asyncio.wait_for(everybody.wait(), LIMIT_S)
        return threading.active_count()

    kind = make_kind(meet)
    with trial.open(kind, real_time=True) as engine:
        ids = [engine.submit(kind, None).job_id for _ in range(128)]
        engine._ledger.add_queue("more", 1000)
        ids += [engine.submit(kind, None, queue="more").job_id for _ in range(count - 128)]
        engine.work(slots=1)
        jobs = [engine.job(id) for id in ids]
    assert {job.state for job in jobs} == {S.COMPLETED}
    assert set(here) == {"coroutines"}
    assert max(int(job.result) for job in jobs) < 30


def test_a_full_slot_keeps_no_coroutine_waiting(trial: Trial, make_kind: MakeKind) -> None:
    """The only slot is taken by a handler that waits for a coroutine, which was submitted after it and another."""
    here = threading.Event()

    def block(context: Any, input: object) -> None:
        assert here.wait(LIMIT_S)

    async def come(context: AsyncContext, input: object) -> None:
        here.set()

    blocking, coming = make_kind(block, "trial.block"), make_kind(come, "trial.come")
    with trial.open(blocking, coming, real_time=True) as engine:
        ids = [engine.submit(kind, None).job_id for kind in (blocking, blocking, coming)]
        engine.work(slots=1)
        assert [engine.job(id).state for id in ids] == [S.COMPLETED] * 3


def test_a_full_loop_keeps_no_slot_waiting(trial: Trial, make_kind: MakeKind) -> None:
    """The only coroutine that may run waits for a handler in a slot, which was submitted after it and another."""
    gate = Gate()

    async def wait(context: AsyncContext, input: object) -> None:
        await gate.passed()

    def come(context: Any, input: object) -> None:
        gate.open()

    waiting, coming = make_kind(wait, "trial.wait"), make_kind(come, "trial.come")
    with trial.open(waiting, coming, real_time=True) as engine:
        ids = [engine.submit(kind, None).job_id for kind in (waiting, waiting, coming)]
        engine.work(coroutines=1)
        assert [engine.job(id).state for id in ids] == [S.COMPLETED] * 3


def test_a_worker_without_coroutines_keeps_no_place_for_them(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no kind is awaited a turn draws no attempt ids for a loop: no more than two for its one slot."""
    asked: list[int] = []
    take = Turns.take

    def seen(self: Turns, ended: Any, places: Any, **rest: Any) -> Any:
        asked.append(sum(place.room for place in places))
        return take(self, ended, places, **rest)

    monkeypatch.setattr(Turns, "take", seen)
    trial.run(make_kind(lambda context, input: None))
    assert asked
    assert max(asked) <= 2


def test_the_bound_of_coroutines_holds(trial: Trial, make_kind: MakeKind) -> None:
    """No more than so many coroutines run at once."""
    now, most = [0], [0]

    async def handler(context: AsyncContext, input: object) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        for _ in range(20):
            await context.boundary()
        now[0] -= 1

    kind = make_kind(handler)
    with trial.open(kind, real_time=True) as engine:
        for _ in range(20):
            engine.submit(kind, None)
        engine.work(coroutines=3)
    assert 1 < most[0] <= 3


@pytest.mark.parametrize(("verb", "state"), [("cancel", S.CANCELLED), ("pause", S.PAUSED)])
def test_a_wish_is_met_at_an_awaited_boundary(until_done: Any, make_kind: MakeKind, verb: str, state: JobState) -> None:
    """P6: a cancel and a pause end a coroutine where it awaits a boundary, and cancel no task of it."""
    gate, unwound = Gate(), []

    async def handler(context: AsyncContext, input: object) -> None:
        gate.reached.set()
        try:
            while True:
                await context.boundary()
        except BaseException as error:
            unwound.append(type(error).__name__)
            raise

    def meanwhile(engine: Any, job_id: str, worker: Any) -> None:
        assert gate.reached.wait(LIMIT_S)
        getattr(engine, verb)(job_id)

    job, _ = until_done(make_kind(handler), meanwhile)
    assert job.state is state
    assert unwound == ["Cancelled" if verb == "cancel" else "Unwound"]


def test_a_worker_that_stops_gives_its_coroutines_back(until_done: Any, make_kind: MakeKind) -> None:
    """E-R6: at the next boundary the job goes back to the queue, and has spent no attempt."""
    gate = Gate()

    async def handler(context: AsyncContext, input: object) -> None:
        gate.reached.set()
        while True:
            await context.boundary()

    def meanwhile(engine: Any, job_id: str, worker: Any) -> None:
        assert gate.reached.wait(LIMIT_S)
        worker.stop()

    job, report = until_done(make_kind(handler), meanwhile)
    assert (job.state, job.spent, report.drained) == (S.QUEUED, 0, True)


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
def test_whatever_a_coroutine_raises_is_a_failed_attempt(
    trial: Trial, make_kind: MakeKind, error: BaseException
) -> None:
    """Its job has failed, and the coroutine beside it ends well."""

    async def handler(context: AsyncContext, input: object) -> str:
        await asyncio.sleep(0)
        if input == "raise":
            raise error
        for _ in range(100):
            await context.boundary()
        return "well"

    kind = make_kind(handler, max_attempts=1)
    with trial.open(kind, real_time=True) as engine:
        ids = [engine.submit(kind, what).job_id for what in ("raise", "end", "end")]
        engine.work()
        assert [engine.job(id).state for id in ids] == [S.FAILED, S.COMPLETED, S.COMPLETED]
        assert type(error).__name__ in engine.job(ids[0]).diagnostic


def test_a_task_of_a_handler_that_exits_takes_nobody_along(trial: Trial, make_kind: MakeKind) -> None:
    """A task that raises SystemExit ends the run of asyncio's loop: it goes on, and others end well."""

    async def leave() -> None:
        raise SystemExit(3)

    async def handler(context: AsyncContext, input: object) -> str:
        if input == "leave":
            with pytest.raises(SystemExit):
                await asyncio.create_task(leave())
        await context.progress(1)
        return "well"

    kind = make_kind(handler)
    with trial.open(kind, real_time=True) as engine:
        ids = [engine.submit(kind, what).job_id for what in ("stay", "leave", "stay")]
        engine.work()
        assert [engine.job(id).state for id in ids] == [S.COMPLETED] * 3


def test_who_cancels_every_task_of_the_loop_fails_handlers_and_no_worker(trial: Trial, make_kind: MakeKind) -> None:
    """All attempts are told as failed, and the worker ends by itself."""

    async def handler(context: AsyncContext, input: object) -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(LIMIT_S)

    job = work_once(trial, make_kind(handler, max_attempts=1))
    assert job.state is S.FAILED
    assert "CancelledError" in job.diagnostic


def test_a_time_limit_cancels_the_task(trial: Trial, make_kind: MakeKind) -> None:
    """E-R2: past its limit a coroutine that sleeps is cancelled; the attempt failed by the limit."""
    ended: list[str] = []

    async def handler(context: AsyncContext, input: object) -> None:
        try:
            await asyncio.sleep(LIMIT_S)
        finally:
            ended.append("unwound")

    job = work_once(trial, make_kind(handler, wall_limit_s=0.05, max_attempts=1))
    assert (job.state, ended) == (S.FAILED, ["unwound"])
    assert "wall_limit_reached" in job.diagnostic


def test_used_up_active_time_cancels_the_task(trial: Trial, make_kind: MakeKind) -> None:
    """A coroutine that sleeps past the active time of its job is cancelled; the job is blocked, as in a thread."""

    async def handler(context: AsyncContext, input: object) -> None:
        await asyncio.sleep(LIMIT_S)

    job = work_once(trial, make_kind(handler, active_limit_s=0.05))
    assert (job.state, job.reason) == (S.BLOCKED, "active_time_limit")


def test_a_cancelled_task_ends_when_it_has_ended(until_done: Any, make_kind: MakeKind) -> None:
    """E-F5: who swallows the cancellation keeps its place, and its job is RUNNING until it ends."""
    gate, states = Gate(), []

    async def handler(context: AsyncContext, input: object) -> str:
        try:
            await asyncio.sleep(LIMIT_S)
        except asyncio.CancelledError:
            await gate.passed()
        return "too late"

    def meanwhile(engine: Any, job_id: str, worker: Any) -> None:
        assert gate.reached.wait(LIMIT_S)
        states.append(engine.job(job_id).state)
        gate.open()

    job, _ = until_done(make_kind(handler, wall_limit_s=0.05, max_attempts=1), meanwhile)
    assert (states, job.state, job.result) == ([S.RUNNING], S.FAILED, None)


def test_a_runaway_that_swallows_its_cancellation_drains_its_worker(
    until_done: Any, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a thread: after the grace time the worker drains, and other workers take what is left."""
    monkeypatch.setattr(drain, "GRACE_S", 0.1)
    monkeypatch.setattr(drain, "LAST_GRACE_S", LIMIT_S)
    gate = Gate()

    async def handler(context: AsyncContext, input: object) -> None:
        try:
            await asyncio.sleep(LIMIT_S)
        except asyncio.CancelledError:
            await gate.passed()

    def meanwhile(engine: Any, job_id: str, worker: Any) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not worker.report.drained:
            assert time.monotonic() < deadline
            time.sleep(0.002)  # reason: a drain gives no signal
        gate.open()

    _, report = until_done(make_kind(handler, wall_limit_s=0.05), meanwhile)
    assert report.drained


def test_a_held_loop_is_reported_with_the_stack_that_holds_it(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-R2: the log of the job and that of the engine name the function in which the loop is held; once."""
    monkeypatch.setattr(loopwatch, "HELD_S", 0.05)

    def hold_the_loop() -> None:
        time.sleep(0.5)  # reason: it holds the loop, which is what is reported

    async def handler(context: AsyncContext, input: object) -> None:
        hold_the_loop()

    job = work_once(trial, make_kind(handler))
    assert job.state is S.COMPLETED
    for name in (job.id, "engine"):
        (line,) = [line for line in trial.log(name) if line["message"] == "loop_blocked"]
        assert "hold_the_loop" in line["stack"]
        assert line["held_s"] >= 0.05


def test_a_loop_that_only_waits_is_not_reported(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coroutine that sleeps holds nobody."""
    monkeypatch.setattr(loopwatch, "HELD_S", 0.2)

    async def handler(context: AsyncContext, input: object) -> None:
        await asyncio.sleep(0.6)  # reason: three times what would be reported

    job = work_once(trial, make_kind(handler))
    assert trial.log(job.id) == [] == [line for line in trial.log("engine") if line["message"] == "loop_blocked"]


@pytest.mark.parametrize("awaited", [True, False])
def test_a_publication_is_written_by_a_function_or_awaited(trial: Trial, make_kind: MakeKind, awaited: bool) -> None:
    """`publish` takes both; a plain one is called outside the loop."""
    shelf: list[str] = []

    def lookup(publication: Publication) -> Published:
        return Published.coherent("found") if shelf else Published.absent()

    def write(publication: Publication) -> str:
        shelf.append(threading.current_thread().name)
        return "written"

    async def write_awaiting(publication: Publication) -> str:
        await asyncio.sleep(0)
        return write(publication)

    async def handler(context: AsyncContext, input: object) -> str:
        return await context.publish(write_awaiting if awaited else write)

    job = trial.run(make_kind(handler, lookup=lookup))
    assert (job.state, job.result, len(shelf)) == (S.COMPLETED, b'"written"', 1)
    assert (shelf[0] == "coroutines") is awaited


def test_a_completion_is_an_answer_of_a_coroutine(trial: Trial, make_kind: MakeKind) -> None:
    """`return await context.complete(…)` completes the job; without `await` it is refused in a sentence."""

    async def handler(context: AsyncContext, input: object) -> Any:
        answer = context.complete({"sum": 3})
        return answer if input == "forgets" else await answer

    assert trial.run(make_kind(handler)).result == b'{"sum":3}'
    job = trial.run(make_kind(handler), "forgets")
    assert job.state is S.FAILED
    assert "await" in job.diagnostic


def test_a_task_left_behind_has_no_verbs(trial: Trial, make_kind: MakeKind) -> None:
    """After the end of an attempt, what it left running may not write in its name, and is cancelled with the worker."""
    refused: list[str] = []
    left_behind: list[asyncio.Task[None]] = []

    async def handler(context: AsyncContext, input: object) -> None:
        async def later() -> None:
            try:
                await asyncio.sleep(LIMIT_S)
            finally:
                try:
                    await context.progress(1)
                except StaleToken as error:
                    refused.append(str(error))

        left_behind.append(asyncio.create_task(later()))
        await asyncio.sleep(0)

    assert trial.run(make_kind(handler)).state is S.COMPLETED
    assert len(refused) == 1


def test_a_child_takes_no_coroutine(make_kind: MakeKind) -> None:
    """A kind that asks for both is refused when it is made, with what to do."""

    async def handler(context: AsyncContext, input: object) -> None: ...

    with pytest.raises(InvalidInput, match=r"asyncio\.run"):
        make_kind(handler, isolation="process")


def test_an_async_generator_is_no_handler(make_kind: MakeKind) -> None:
    """It is refused when the kind is made."""

    async def handler(context: AsyncContext, input: object) -> Any:
        yield 1

    with pytest.raises(InvalidInput, match="generator"):
        make_kind(handler)


def test_a_verb_is_over_before_a_cancellation_is_raised(until_done: Any, make_kind: MakeKind) -> None:
    """A limit that strikes while a plain function publishes waits for it: nothing goes on behind the end."""
    writing, let_go, order = threading.Event(), threading.Event(), []

    def write(publication: Publication) -> None:
        writing.set()
        assert let_go.wait(LIMIT_S)
        order.append("written")

    async def handler(context: AsyncContext, input: object) -> None:
        try:
            await context.publish(write)
        except asyncio.CancelledError:
            order.append("cancelled")
            raise

    def meanwhile(engine: Any, job_id: str, worker: Any) -> None:
        assert writing.wait(LIMIT_S)
        threading.Timer(0.3, let_go.set).start()  # reason: the limit strikes while it waits

    job, _ = until_done(make_kind(handler, wall_limit_s=0.1, max_attempts=1), meanwhile)
    assert (order, job.state) == (["written", "cancelled"], S.FAILED)
