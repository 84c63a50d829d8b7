"""A worker whose store does not say what became of a turn, or does not let it in, waits and reads back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from perenne import Context, Kind
from perenne.core.states import JobState as S
from perenne.errors import DiskLow, OutcomeUnknown, StoreBusy, StoreFailed
from perenne.runtime import worker as workers
from perenne.store.ledger import Ledger
from perenne.store.owners import Owners
from perenne.store.reader import Reader

LIMIT_S = 20.0
UNKNOWN = OutcomeUnknown("the disk failed at the commit; it is not known whether the change was made")
MakeKind = Callable[..., Kind]
Trial = Any  # of conftest.py


class Doubtful:
    """A store that fails at the commit of some turns, made or not, and then for a while cannot say what stands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, which: Callable[[Any, Any], bool], *, made: bool) -> None:
        self.turns, self.asked, self.silent = 0, 0, 3
        self.met = threading.Event()
        real_turn, real_stands = Ledger.turn, Ledger.stands

        def turn(ledger: Ledger, endings: Any, lanes: Any, attempts: Any, **named: Any) -> Any:
            if self.turns or not which(endings, attempts):
                return real_turn(ledger, endings, lanes, attempts, **named)
            self.turns += 1
            if made:
                real_turn(ledger, endings, lanes, attempts, **named)
                raise UNKNOWN
            answers: list[Any] = []

            def undone(driver: Any, work: Any, **wishes: Any) -> Any:
                def tried(tx: Any) -> None:
                    answers.append(work(tx))
                    raise UNKNOWN

                return real_write(driver, tried)

            driver = type(ledger._driver)
            real_write = driver.write
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(driver, "write", undone)
                return real_turn(ledger, endings, lanes, attempts, **named)

        def stands(ledger: Ledger, *values: Any) -> bool:
            self.asked += 1
            self.met.set()
            if self.asked <= self.silent:
                raise (UNKNOWN, StoreBusy("held"), StoreFailed("it cannot be read"))[self.asked % 3]
            return real_stands(ledger, *values)

        monkeypatch.setattr(Ledger, "turn", turn)
        monkeypatch.setattr(Ledger, "stands", stands)
        monkeypatch.setattr(workers, "PATIENCE_S", 0.01)


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("which", ["ends", "claims"])
def test_a_turn_in_doubt_is_read_back(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, which: str, made: bool
) -> None:
    """E-W3: what stands is taken up and told, what does not is done again; nothing runs twice or is told twice."""
    calls: list[int] = []
    told: list[str] = []
    kind = make_kind(lambda context, input: calls.append(input))
    with trial.open(kind) as engine:
        jobs = [engine.submit(kind, number).job_id for number in range(2)]
        engine.on_end(lambda job: told.append(job.id))
        doubtful = Doubtful(monkeypatch, lambda endings, attempts: bool(endings) == (which == "ends"), made=made)
        engine.work()
        assert [(engine.job(id).state, engine.job(id).spent, engine.job(id).number) for id in jobs] == [
            (S.COMPLETED, 1, 1)
        ] * 2
    assert (doubtful.turns, doubtful.asked) == (1, 4)
    assert (sorted(calls), sorted(told)) == ([0, 1], sorted(jobs))
    waits = [line["error"] for line in trial.log("engine") if line["message"] == "store_waits"]
    assert waits == [str(UNKNOWN)]


def test_a_worker_in_doubt_can_be_stopped_hard(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, in_thread: Any
) -> None:
    """A second stop does not wait for a store that never says; the next worker settles what stands."""
    with trial.open(kind := make_kind(lambda context, input: "done")) as engine:
        job_id = engine.submit(kind, None).job_id
        doubtful = Doubtful(monkeypatch, lambda endings, attempts: bool(endings), made=True)
        doubtful.silent = 10**9
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        assert doubtful.met.wait(LIMIT_S)
        worker.stop()
        worker.stop()
        with pytest.raises((OutcomeUnknown, StoreBusy, StoreFailed)):
            running.result()
    monkeypatch.undo()
    with trial.open(kind) as engine:
        engine.work()
        assert (engine.job(job_id).state, engine.job(job_id).spent) == (S.COMPLETED, 1)


def test_a_replaced_file_is_not_waited_for(trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that another file has taken the place of never says; the worker ends with that sentence."""

    def stands(ledger: Ledger, *values: Any) -> bool:
        raise StoreFailed("the file was replaced under us", file="ledger.sqlite")

    with trial.open(kind := make_kind(lambda context, input: None)) as engine:
        engine.submit(kind, None)
        Doubtful(monkeypatch, lambda endings, attempts: bool(endings), made=True)
        monkeypatch.setattr(Ledger, "stands", stands)
        with pytest.raises(StoreFailed, match="replaced under us"):
            engine.work()


def refusing(patch: pytest.MonkeyPatch, cls: type, name: str, errors: list[Exception]) -> None:
    """Let a method raise these errors first."""
    real = getattr(cls, name)

    def method(*values: Any, **named: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return real(*values, **named)

    patch.setattr(cls, name, method)
    patch.setattr(workers, "PATIENCE_S", 0.01)


@pytest.mark.parametrize(
    ("cls", "name"),
    [(Owners, "join"), (Owners, "present"), (Owners, "open_attempts"), (Reader, "blocked"), (Reader, "controls")],
)
def test_a_store_that_is_busy_at_first_is_waited_for(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, cls: type, name: str
) -> None:
    """A worker comes in and looks around as patiently as it records ends: with one message, and without an error."""
    errors: list[Exception] = [StoreBusy("held by another"), DiskLow("free some space"), UNKNOWN]
    with trial.open(kind := make_kind(lambda context, input: None)) as engine:
        job_id = engine.submit(kind, None).job_id
        refusing(monkeypatch, cls, name, errors)
        engine.work()
        assert (engine.job(job_id).state, errors) == (S.COMPLETED, [])
    waits = [line["error"] for line in trial.log("engine") if line["message"] == "store_waits"]
    assert waits == ["held by another"]


def test_a_worker_that_waits_to_come_in_can_be_stopped(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, in_thread: Any
) -> None:
    """A worker that never got in ends at once when it is told to, and has left nothing."""
    refused = threading.Event()

    def join(owners: Owners, *values: Any, **named: Any) -> None:
        refused.set()
        raise StoreBusy("held by another")

    monkeypatch.setattr(Owners, "join", join)
    with trial.open(kind := make_kind(lambda context, input: None)) as engine:
        job_id = engine.submit(kind, None).job_id
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        assert refused.wait(LIMIT_S)
        worker.stop()
        assert (running.result().drained, engine.job(job_id).state) == (True, S.QUEUED)
        monkeypatch.undo()
        engine.work()
        assert engine.job(job_id).state is S.COMPLETED


def test_a_worker_that_cannot_say_that_it_leaves_has_done_its_work(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is free then, and the next worker notes that it has left."""
    with trial.open(kind := make_kind(lambda context, input: None)) as engine:
        engine.submit(kind, None)
        refusing(monkeypatch, Owners, "leave", [StoreBusy("held by another")])
        assert engine.work().ended == 1
        [left] = engine._owners.present()
    with trial.open(kind) as engine:
        engine.work()
        assert left not in engine._owners.present()


def test_a_worker_that_cannot_look_around_can_be_stopped(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch, in_thread: Any
) -> None:
    """A first stop reaches the handlers although the store says nothing, and a second one ends the worker."""
    started, unwound, silent = threading.Event(), threading.Event(), threading.Event()

    def handler(context: Context, input: object) -> None:
        started.set()
        try:
            while True:
                context.boundary()
        finally:
            unwound.set()

    def present(owners: Owners) -> Any:
        if silent.is_set():
            raise StoreBusy("held by another")
        return real(owners)

    real = Owners.present
    monkeypatch.setattr(Owners, "present", present)
    with trial.open(kind := make_kind(handler)) as engine:
        engine.submit(kind, None)
        worker = engine.worker()
        running = in_thread(lambda: worker.run(stay=True))
        assert started.wait(LIMIT_S)
        silent.set()
        worker.stop()
        assert unwound.wait(LIMIT_S)
        worker.stop()
        with pytest.raises(StoreBusy):
            running.result()
