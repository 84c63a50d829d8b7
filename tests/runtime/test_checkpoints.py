"""A job goes on from its last checkpoint, however its attempt ended, and alone bears a checkpoint that is refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perenne
from perenne import App, AsyncContext, JobState, Kind, testing, upkeep
from perenne.core import limits
from perenne.errors import EngineError, InvalidInput, TooLarge
from perenne.runtime.saving import Kept

S = JobState
LARGE = limits.STATE_IN_ROW_BYTES + 1
SIZES = pytest.mark.parametrize("size", [3, LARGE], ids=["in the row", "in a file"])


class State(msgspec.Struct):
    """Where the work is, and what it carries along."""

    at: int = 0
    carried: bytes = b""


class Walk:
    """Counts to five, saving at each step; does what a test wants at one of them, once."""

    def __init__(self, size: int, at: int = 3, then: Any = None) -> None:
        self.size, self.at, self.then = size, at, then
        self.begun: list[int] = []
        self.kept: list[Kept] = []

    def __call__(self, context: Any, input: object) -> list[int]:
        state = context.state or State()
        self.begun.append(state.at)
        for at in range(state.at, 5):
            context.boundary()
            self.kept.append(context.checkpoint(State(at + 1, bytes([at]) * self.size)))
            if at + 1 == self.at and self.then is not None:
                then, self.then = self.then, None
                then(context)
        return [len(self.begun), state.at]


def files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / ".perenne" / "checkpoints").iterdir())


def stop(ask: Any) -> Any:
    """Ask something of the running attempt, and wait for it at boundaries, which it ends."""

    def then(context: Any) -> None:
        ask(context.job_id)
        while True:
            context.boundary()
            time.sleep(0.001)  # reason: the wish comes from another thread, and a handler only meets it

    return then


def fail(context: Any) -> None:
    raise RuntimeError("not this time")


@SIZES
def test_a_failed_attempt_goes_on(trial: Any, make_kind: Any, size: int) -> None:
    """The next attempt has the last state that was saved; once completed, nothing of it is left."""
    walk = Walk(size, then=fail)
    job = trial.run(make_kind(walk, state_type=State))
    assert (job.state, job.result) == (S.COMPLETED, b"[2,3]")
    assert walk.begun == [0, 3]
    assert files(trial.root) == []


@SIZES
def test_nothing_saved_is_nothing_kept(trial: Any, make_kind: Any, size: int) -> None:
    """The same state again writes nothing; another one does."""

    def handler(context: Any, input: object) -> None:
        one = State(1, b"x" * size)
        assert context.checkpoint(one) is Kept.DURABLE
        before = engine.revision(), sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
        assert context.checkpoint(State(1, b"x" * size)) is Kept.UNCHANGED
        assert (engine.revision(), sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())) == before
        assert context.checkpoint(State(2, b"x" * size)) is Kept.DURABLE

    folder = trial.root / ".perenne" / "checkpoints"
    kind = make_kind(handler, state_type=State)
    with trial.open(kind) as engine:
        receipt = engine.submit(kind, None)
        testing.drain(engine, clock=trial.clock)
        assert engine.job(receipt.job_id).diagnostic is None


@SIZES
@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_person_stops_it_and_lets_it_go_on(trial: Any, make_kind: Any, size: int, verb: str) -> None:
    """A paused job that is resumed, and a cancelled one that is requeued, go on from the last state; over a restart."""
    walk = Walk(size, then=stop(lambda id: getattr(engine, verb)(id)))
    kind = make_kind(walk, state_type=State)
    with trial.open(kind) as engine:
        id = engine.submit(kind, None).job_id
        testing.drain(engine, clock=trial.clock)
        assert engine.job(id).state is {"pause": S.PAUSED, "cancel": S.CANCELLED}[verb]
    with trial.open(kind) as engine:
        engine.resume(id) if verb == "pause" else engine.requeue(id, "wanted after all")
        testing.drain(engine, clock=trial.clock)
        assert engine.job(id).state is S.COMPLETED
    assert walk.begun == [0, 3]
    assert files(trial.root) == []


@SIZES
def test_a_requeue_may_begin_again(trial: Any, make_kind: Any, size: int) -> None:
    """`from_start` forgets the checkpoint."""
    walk = Walk(size, then=stop(lambda id: engine.cancel(id)))
    kind = make_kind(walk, state_type=State)
    with trial.open(kind) as engine:
        id = engine.submit(kind, None).job_id
        testing.drain(engine, clock=trial.clock)
        engine.requeue(id, "begin again", from_start=True)
        testing.drain(engine, clock=trial.clock)
        assert engine.job(id).state is S.COMPLETED
    assert walk.begun == [0, 0]
    assert files(trial.root) == []


def test_a_worker_that_stops_leaves_the_checkpoint(trial: Any, make_kind: Any, in_thread: Any) -> None:
    """Shutting down is a suspend: no cancellation is recorded, no attempt spent, and the job goes on from its state."""
    walk = Walk(LARGE, then=stop(lambda id: worker.stop()))
    kind = make_kind(walk, state_type=State)
    with trial.open(kind, real_time=True) as engine:
        id = engine.submit(kind, None).job_id
        worker = engine.worker()
        worker.run(stay=True)
        job = engine.job(id)
        assert (job.state, job.spent) == (S.QUEUED, 0)
        assert [attempt.outcome for attempt in engine.attempts(id)] == ["suspended"]
    with trial.open(kind, real_time=True) as engine:
        engine.work()
        assert engine.job(id).state is S.COMPLETED
    assert walk.begun == [0, 3]


DAMAGE: dict[str, tuple[Any, str]] = {
    "missing": (lambda path: path.unlink(), "checkpoint_missing"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "checkpoint_corrupt"),
    "trailing": (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "checkpoint_corrupt"),
    "format": (lambda path: path.write_bytes(path.read_bytes()[:11] + b"\7"), "checkpoint_corrupt"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "checkpoint_unreadable"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_refused_checkpoint_harms_its_job_alone(trial: Any, make_kind: Any, damage: str) -> None:
    """E-C3, C85: the job waits for a person, its handler is not called, and every other job goes on."""
    walk = Walk(LARGE, then=stop(lambda id: engine.pause(id)))
    kind = make_kind(walk, state_type=State)
    break_it, code = DAMAGE[damage]
    with trial.open(kind) as engine:
        id = engine.submit(kind, None).job_id
        testing.drain(engine, clock=trial.clock)
        break_it(trial.root / ".perenne" / "checkpoints" / f"{id}.chk")
        engine.resume(id)
        other = engine.submit(kind, None).job_id
        testing.drain(engine, clock=trial.clock)
        job = engine.job(id)
        assert (job.state, job.reason) == (S.RECOVERY_REQUIRED, "checkpoint_refused")
        assert (job.diagnostic or "").startswith(code)
        assert engine.job(other).state is S.COMPLETED
        assert walk.begun == [0, 0]
        with pytest.raises(InvalidInput, match="from_start"):
            engine.resolve(id, S.FAILED, "given up", from_start=True)
        engine.resolve(id, S.QUEUED, "it can be computed again", from_start=True)
        testing.drain(engine, clock=trial.clock)
        assert engine.job(id).state is S.COMPLETED
    assert walk.begun == [0, 0, 0]


def test_two_swapped_files_are_both_refused(trial: Any, make_kind: Any) -> None:
    """The checkpoint of one job is no checkpoint of another."""

    def handler(context: Any, input: object) -> None:
        context.checkpoint(State(1, bytes(LARGE)))
        stop(lambda id: engine.pause(id))(context)

    kind = make_kind(handler, state_type=State)
    with trial.open(kind) as engine:
        ids = [engine.submit(kind, None).job_id for _ in range(2)]
        testing.drain(engine, clock=trial.clock)
        one, two = (trial.root / ".perenne" / "checkpoints" / f"{id}.chk" for id in ids)
        one.rename(one.with_suffix(".aside"))
        two.rename(one)
        one.with_suffix(".aside").rename(two)
        for id in ids:
            engine.resume(id)
        testing.drain(engine, clock=trial.clock)
        assert {engine.job(id).state for id in ids} == {S.RECOVERY_REQUIRED}
        assert all((engine.job(id).diagnostic or "").startswith("checkpoint_mismatch") for id in ids)


def test_a_state_is_checked_when_it_is_saved(trial: Any, make_kind: Any) -> None:
    """What cannot be encoded, does not fit or is too large is refused; the last checkpoint stands."""

    def handler(context: Any, input: object) -> str:
        if context.state is not None:
            return f"{context.state.at}"
        context.checkpoint(State(1))
        for wrong in (State("two"), object(), {"at": 2, "carried": 3}, None):  # type: ignore[arg-type]
            with pytest.raises(InvalidInput, match=r"state of trial\.work@1"):
                context.checkpoint(wrong)
        with pytest.raises(TooLarge, match="67108864"):
            context.checkpoint(State(2, bytes(limits.STATE_BYTES + 1)))
        raise RuntimeError("again")

    assert trial.run(make_kind(handler, state_type=State)).result == b'"1"'


def test_a_kind_without_a_state_type_has_no_checkpoints(trial: Any, make_kind: Any) -> None:
    """The refusal names what to give."""

    def handler(context: Any, input: object) -> None:
        assert context.state is None
        with pytest.raises(InvalidInput, match="state_type"):
            context.checkpoint({"at": 1})

    assert trial.run(make_kind(handler)).state is S.COMPLETED
    with pytest.raises(InvalidInput, match="state_type"):
        make_kind(handler, autosave_s=1.0)
    with pytest.raises(InvalidInput, match="migrates"):
        make_kind(handler, state_type=State, migrates=(2,), migrate=lambda version, state: state)


def test_boundaries_save_by_themselves(trial: Any, make_kind: Any) -> None:
    """E-C5: every `autosave_s`, and before a pause, a boundary saves what `keep` was given."""
    begun: list[int] = []

    def handler(context: Any, input: object) -> None:
        state = context.state or State()
        begun.append(state.at)
        context.keep(lambda: state)
        for at in range(state.at, 9):
            state.at = at
            trial.clock.advance(1.0)
            context.boundary()
            if at == 7 and len(begun) == 1:
                raise RuntimeError("after a save by itself")
            if at == 8 and len(begun) == 2:
                engine.pause(context.job_id)

    kind = make_kind(handler, state_type=State, autosave_s=3.0)
    with trial.open(kind) as engine:
        id = engine.submit(kind, None).job_id
        testing.drain(engine, clock=trial.clock)
        assert engine.job(id).state in (S.COMPLETED, S.PAUSED)
    assert begun[:2] == [0, 5]


def test_a_newer_kind_takes_over(trial: Any, make_kind: Any) -> None:
    """E-C6: with `migrate` a job of an older version goes on, its state made new; without, it waits."""

    class Newer(msgspec.Struct):
        step: int

    old = Kind("trial.work", 1, Walk(3, then=stop(lambda id: engine.pause(id))), Any, state_type=State)
    seen: list[Any] = []
    plain = Kind("trial.work", 2, lambda context, input: seen.append(context.state), Any, state_type=Newer)
    taking = Kind(
        "trial.work",
        2,
        plain.handler,
        Any,
        state_type=Newer,
        migrates=(1,),
        migrate=lambda version, state: {"step": state["at"] * 10 + version},
    )
    with trial.open(old) as engine:
        id = engine.submit(old, None).job_id
        testing.drain(engine, clock=trial.clock)
        engine.resume(id)
    with trial.open(plain) as engine:
        testing.drain(engine, clock=trial.clock)
        assert engine.job(id).state is S.QUEUED
    found = {kind: _said(trial.root, kind, "kinds") for kind in (plain, taking)}
    assert [kind for kind in found if "trial.work@1" in found[kind]] == [plain]
    with trial.open(taking) as engine:
        testing.drain(engine, clock=trial.clock)
        assert engine.job(id).state is S.COMPLETED
    assert seen == [Newer(31)]


def _said(root: Path, kind: Kind, name: str) -> str:
    """What the doctor says about one thing, when the application has this kind."""
    found = upkeep.doctor(root, App("trial", [kind]))
    return " ".join(one.sentence for one in found if one.name == name)


def test_the_doctor_finds_what_no_row_names(trial: Any, make_kind: Any) -> None:
    """A file of a checkpoint from which no job goes on is named, and the next worker removes it."""
    kind = make_kind(Walk(LARGE), state_type=State)
    folder = trial.root / ".perenne" / "checkpoints"
    with trial.open(kind) as engine:
        engine.submit(kind, None)
        testing.drain(engine, clock=trial.clock)
    stray = folder / "01990000-0000-7000-8000-000000000000.1-00000000.1.next"
    assert "no file is left" in _said(trial.root, kind, "checkpoints")
    stray.write_bytes(b"half")
    stray.chmod(0o600)
    assert stray.name.partition(".")[0] in _said(trial.root, kind, "checkpoints")
    with trial.open(kind) as engine:
        engine.work()
    assert "no file is left" in _said(trial.root, kind, "checkpoints")
    assert files(trial.root) == []


def test_an_older_kind_refuses_a_newer_state(trial: Any, make_kind: Any) -> None:
    """A state that was saved by a newer version is not guessed at."""
    app_kind = Kind(
        "trial.work",
        2,
        Walk(3, then=stop(lambda id: engine.pause(id))),
        Any,
        state_type=State,
        migrates=(1,),
        migrate=lambda version, state: state,
    )
    old = make_kind(lambda context, input: None, state_type=State)
    with trial.open(old) as engine:
        id = engine.submit(old, None).job_id
    with trial.open(app_kind) as engine:
        testing.drain(engine, clock=trial.clock)
        engine.resume(id)
    with trial.open(old) as engine:
        testing.drain(engine, clock=trial.clock)
        job = engine.job(id)
        assert job.state is S.RECOVERY_REQUIRED
        assert (job.diagnostic or "").startswith("checkpoint_unsupported")


def test_a_coroutine_saves_and_goes_on(trial: Any, make_kind: Any) -> None:
    """The same verbs, awaited."""
    begun: list[int] = []

    async def handler(context: AsyncContext, input: object) -> int:
        state = context.state or State()
        begun.append(state.at)
        for at in range(state.at, 4):
            await context.boundary()
            await context.checkpoint(State(at + 1, bytes(LARGE)))
            if at == 1 and len(begun) == 1:
                raise RuntimeError("again")
        return state.at

    job = trial.run(make_kind(handler, state_type=State))
    assert (job.state, begun) == (S.COMPLETED, [0, 2])


def test_its_own_statements_stand_with_the_checkpoint(tmp_path: Path) -> None:
    """E-P5: what `also` writes is there exactly when the checkpoint is."""

    def handler(context: Any, input: object) -> None:
        state = context.state or State()
        for at in range(state.at, 3):
            context.checkpoint(
                State(at + 1), also=lambda tables, at=at: tables.execute("insert into walks_step values (?)", (at,))
            )
            if at == 1 and context.attempt == 1:
                with pytest.raises(EngineError):
                    context.checkpoint(State(9), also=lambda tables: tables.execute("insert into nothing values (1)"))
                raise RuntimeError("again")

    kind = Kind("walk", 1, handler, Any, state_type=State)
    app = App("walks", [kind], migrations=["create table walks_step (at integer primary key) strict"])
    root = testing.workspace(tmp_path / "work", app)
    clock = testing.FakeClock()
    with perenne.open(root, app, access="work", clock=clock) as engine:
        id = engine.submit(kind, None).job_id
        testing.drain(engine, clock=clock)
        assert engine.job(id).state is S.COMPLETED, engine.job(id).diagnostic
        with engine.transaction() as tx:
            assert tx.execute("select at from walks_step order by at") == [(0,), (1,), (2,)]


def test_its_tables_are_those_of_every_other_transaction(tmp_path: Path) -> None:
    """An app whose name is no prefix as it stands has one prefix of tables: that of `complete` and of transactions."""

    def handler(context: Any, input: object) -> None:
        context.checkpoint(State(1), also=lambda tables: tables.execute("insert into case_files_seen values (1)"))

    kind = Kind("walk", 1, handler, Any, state_type=State)
    app = App("Case files", [kind], migrations=["create table case_files_seen (at integer primary key) strict"])
    root = testing.workspace(tmp_path / "work", app)
    with perenne.open(root, app, access="work") as engine:
        id = engine.submit(kind, None).job_id
        engine.work()
        assert engine.job(id).state is S.COMPLETED, engine.job(id).diagnostic


def test_a_late_attempt_saves_nothing(trial: Any, make_kind: Any) -> None:
    """P2: an attempt that lost its right is unwound, and what was saved before stands."""
    begun: list[int] = []
    raised: list[str] = []

    def handler(context: Any, input: object) -> None:
        begun.append((context.state or State()).at)
        if context.attempt > 1:
            return
        context.checkpoint(State(1))
        context.saving.store._token = msgspec.structs.replace(context.saving.store._token, attempt="0" * 32)
        try:
            context.checkpoint(State(2))
        except BaseException as error:
            raised.append(type(error).__name__)
            raise

    job = trial.run(make_kind(handler, state_type=State))
    assert raised == ["Unwound"]
    assert (job.state, begun) == (S.COMPLETED, [0, 1])
