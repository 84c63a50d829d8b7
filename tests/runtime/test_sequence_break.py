"""E-G6: between two sequences a job gives way or goes on; its frame is unwound, and it begins again from its state."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import pytest
import sequence_app

import perenne
from perenne import App, Context, Engine, Estimate, Kind, testing
from perenne.core.states import JobState
from perenne.store import reservations

ONE = Estimate(io_slots=1)
# Whoever else works at this machine is none of these tests' business.
RULE = """
[governor]
memory_kept_bytes = 0
memory_emergency_bytes = 0
load_ratio = 1000
cpu_percent = 0
memory_percent = 0
io_percent = 0
"""


def opened(root: Path, *kinds: Kind) -> Engine:
    app = App("sequences", kinds)
    perenne.create(root, app, name="sequences")
    manifest = root / "workspace.toml"
    manifest.write_text(manifest.read_text() + RULE)
    return perenne.open(root, app, access="work")


def held(engine: Engine) -> list[reservations.Held]:
    return engine._ledger.accounts.look().held


def counting(seen: list[tuple[Any, ...]], steps: int = 3, **more: Any) -> Kind:
    """Counts to `steps`, a sequence each; says what it saw at each of its beginnings."""

    def count(context: Context, name: str) -> int:
        done = context.state or 0
        seen.append((name, done, context.attempt))
        while done < steps:
            done += 1
            context.sequence_break(done)
        return done

    return Kind("count", 1, count, str, state_type=int, **{"estimate": ONE} | more)


def test_who_is_alone_goes_on_in_its_frame(tmp_path: Path) -> None:
    """With nobody waiting the handler is called once, and what is written is its checkpoints."""
    seen: list[tuple[Any, ...]] = []
    with opened(tmp_path / "w", kind := counting(seen, steps=50)) as engine:
        job = engine.submit(kind, "only").job_id
        before = engine.revision()
        engine.work()
        assert engine.job(job).state is JobState.COMPLETED
        assert engine.revision() - before == 2  # the claim and the end
        assert held(engine) == []
    assert seen == [("only", 0, 1)]


def test_without_an_estimate_a_break_is_a_checkpoint(tmp_path: Path) -> None:
    """A kind that says nothing is asked nothing."""
    seen: list[tuple[Any, ...]] = []
    with opened(tmp_path / "w", kind := counting(seen, estimate=None)) as engine:
        job = engine.submit(kind, "plain").job_id
        engine.work()
        assert engine.job(job).state is JobState.COMPLETED
    assert seen == [("plain", 0, 1)]


def test_a_better_job_goes_between_two_sequences(tmp_path: Path) -> None:
    """At its break a job gives way to a better one, and goes on from its state in the same attempt."""
    order: list[tuple[Any, ...]] = []

    def work(context: Context, name: str) -> str:
        done = context.state or 0
        order.append((name, done, context.attempt))
        if name == "long" and done == 0:
            engine.submit(kind, "urgent", priority=9)
        while done < (3 if name == "long" else 1):
            done += 1
            context.sequence_break(done)
        return name

    kind = Kind("work", 1, work, str, state_type=int, estimate=ONE)
    with opened(tmp_path / "w", kind) as engine:
        long = engine.submit(kind, "long").job_id
        engine.work()
        jobs = engine.jobs()
        assert [job.state for job in jobs] == [JobState.COMPLETED] * 2
        assert len(engine.attempts(long)) == 1
        assert held(engine) == []
        verbs = [line.verb for line in engine.history(job_id=long)]
        assert verbs == ["submit", "claim", "complete"]
    assert order == [("long", 0, 1), ("urgent", 0, 1), ("long", 1, 1)]


def test_no_handler_catches_its_unwinding(tmp_path: Path) -> None:
    """`except Exception` does not hold the frame; whoever goes on all the same is unwound at its next boundary."""
    calls: list[int] = []

    def work(context: Context, name: str) -> None:
        calls.append(context.state or 0)
        if name == "stubborn" and context.state is None:
            engine.submit(kind, "urgent", priority=9)
            try:
                context.sequence_break(1)
            except Exception:
                calls.append(-1)
            except BaseException:
                context.boundary()
                calls.append(-2)

    kind = Kind("work", 1, work, str, state_type=int, estimate=ONE)
    with opened(tmp_path / "w", kind) as engine:
        engine.submit(kind, "stubborn")
        assert engine.work().ended == 2
    assert calls == [0, 0, 1]


@pytest.mark.parametrize(("verb", "state"), [("cancel", JobState.CANCELLED), ("pause", JobState.PAUSED)])
def test_a_waiting_job_hears_what_is_asked(tmp_path: Path, verb: str, state: JobState) -> None:
    """Between two sequences a job is RUNNING and holds nothing; cancel and pause end it there, without a slot."""
    waits, go_on = threading.Event(), threading.Event()
    calls: list[str] = []

    def work(context: Context, name: str) -> None:
        calls.append(name)
        if name == "first":
            engine.submit(kind, "urgent", priority=9)
            context.sequence_break(1)
        else:
            waits.set()
            assert go_on.wait(30)

    kind = Kind("work", 1, work, str, state_type=int, estimate=ONE)
    with opened(tmp_path / "w", kind) as engine:
        first = engine.submit(kind, "first").job_id
        worker = engine.worker(slots=2)
        thread = threading.Thread(target=lambda: worker.run(stay=False))
        thread.start()
        assert waits.wait(30)
        assert engine.job(first).state is JobState.RUNNING
        (mine,) = [one for one in held(engine) if one.job_id == first]
        assert (mine.reservation.io_slots, mine.waits_for) == (0, "it needs 1 I/O slots, 0 are free")
        getattr(engine, verb)(first)
        ended = engine.wait(first, timeout_s=30) if verb == "cancel" else _until_paused(engine, first)
        assert ended.state is state
        go_on.set()
        thread.join(30)
        assert held(engine) == []
    assert calls == ["first", "urgent"]


def _until_paused(engine: Engine, job: str) -> Any:
    for _ in range(300):
        if engine.job(job).state is JobState.PAUSED:
            break
        threading.Event().wait(0.1)  # reason: a pause rings nobody, for nobody waits for it
    return engine.job(job)


def test_a_frame_that_is_kept_waits_in_its_thread(tmp_path: Path) -> None:
    """A kind that keeps its frame gives its reservation back all the same, and its handler is called once."""
    order: list[str] = []

    def work(context: Context, name: str) -> None:
        order.append(name)
        if name == "kept":
            engine.submit(kind, "urgent", priority=9)
            context.sequence_break(1)
            order.append("kept goes on")

    kind = Kind("work", 1, work, str, state_type=int, estimate=ONE, keep_frame=True)
    with opened(tmp_path / "w", kind) as engine:
        engine.submit(kind, "kept")
        assert engine.work(slots=2).ended == 2
        assert held(engine) == []
    assert order == ["kept", "urgent", "kept goes on"]


def test_a_child_gives_way_and_goes_on(tmp_path: Path) -> None:
    """A handler in a child is unwound and called again as one in a thread is, with its state."""
    root = tmp_path / "w"
    perenne.create(root, sequence_app.APP, name="sequences")
    with perenne.open(root, sequence_app.APP, access="work") as engine:
        long = engine.submit("child.long", 3, priority=-1).job_id
        engine.work()
        job = engine.job(long)
        assert job.state is JobState.COMPLETED, job
        assert len(engine.attempts(long)) == 1
        assert job.result == b'{"began":[0,1],"batch":1}'
        assert [one.state for one in engine.jobs()] == [JobState.COMPLETED] * 2
        measured = {one.kind: one for one in engine.view.resources().measured}
        assert measured["child.long"].sequences == 2
        assert (measured["child.long"].peak_bytes or 0) > 1 << 20


def test_a_death_between_two_sequences_is_settled(tmp_path: Path) -> None:
    """Who dies while its job waits for the next sequence leaves no reservation, and the job goes on from its state."""
    root = tmp_path / "w"
    perenne.create(root, sequence_app.APP, name="sequences", specimen=True)
    with perenne.open(root, sequence_app.APP) as engine:
        long = engine.submit("thread.long", 3, priority=-1).job_id
    testing.crash(root, sequence_app.APP, "claim.committed:2")
    with perenne.open(root, sequence_app.APP, access="work") as engine:
        engine.work()
        job = engine.job(long)
        assert job.state is JobState.COMPLETED
        assert held(engine) == []
        assert job.number == 2
        assert job.result == b'{"began":[0,1],"batch":1}'
