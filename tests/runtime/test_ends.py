"""Who is told of an end (E-S4): listeners of this process once, after it is durable; waiters; durable listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from perenne import Context, JobState, Kind
from perenne.core.job import Job
from perenne.errors import NotAllowed
from perenne.runtime import worker as workers
from perenne.store.notices import Notice

Trial = Any
MakeKind = Callable[..., Kind]
S = JobState
LIMIT_S = 20.0


def nothing(context: Context, input: object) -> None:
    return None


def test_listeners_hear_each_end_once_after_it_is_durable(trial: Trial, make_kind: MakeKind) -> None:
    """Every listener is called once an end, by then the ledger shows it, and its queue has its place back."""
    told: list[tuple[str, JobState, JobState, int]] = []

    def listener(job: Job) -> None:
        room = engine.queues()[0].unfinished
        told.append((job.id, job.state, engine.job(job.id).state, room))

    def handler(context: Context, input: object) -> None:
        if input == "fail":
            raise ValueError("wrong")

    with trial.open(kind := make_kind(handler, max_attempts=1)) as engine:
        engine.on_end(listener)
        done, failed = engine.submit(kind, "return").job_id, engine.submit(kind, "fail").job_id
        engine.work()
        cancelled = engine.submit(kind, None).job_id
        engine.cancel(cancelled)
    assert [(job, state) for job, state, _, _ in told] == [
        (done, S.COMPLETED),
        (failed, S.FAILED),
        (cancelled, S.CANCELLED),
    ]
    assert all(state == shown for _, state, shown, _ in told)
    assert told[-1][3] == 0


def test_no_listener_hears_what_is_no_end(trial: Trial, make_kind: MakeKind) -> None:
    """A pause, a retry, a doubt, a block, a suspend and a release are no ends."""
    told: list[Job] = []

    def handler(context: Context, input: object) -> None:
        raise ValueError("again")

    missing = make_kind(nothing, "trial.missing", missing=lambda: "not here")
    with trial.open(kind := make_kind(handler), missing) as engine:
        engine.on_end(told.append)
        engine.submit(kind, None)
        engine.submit(missing, None)
        engine.work()
        engine.pause(engine.submit(kind, None).job_id)
        assert engine.counts() == {S.RETRY_WAIT: 1, S.BLOCKED: 1, S.PAUSED: 1}
    assert told == []


def test_a_job_that_fails_at_its_submit_is_told(trial: Trial, make_kind: MakeKind) -> None:
    """A job whose dependency has ended badly before fails as it is stored: it is told once, alone or of a batch."""
    told: list[tuple[str, JobState]] = []
    policy: dict[str, Any] = {"on_dependency": "fail"}
    with trial.open(kind := make_kind(nothing)) as engine:
        gone = engine.submit(kind, None).job_id
        engine.cancel(gone)
        engine.on_end(lambda job: told.append((job.id, job.state)))
        alone = engine.submit(kind, None, key="alone", depends_on=[gone], **policy)
        again = engine.submit(kind, None, key="alone", depends_on=[gone], **policy)
        first = engine.request(kind, None, depends_on=[gone], **policy)
        second = engine.request(kind, None, depends_on=[first.id], **policy)
        third = engine.request(kind, None, depends_on=[first.id])
        engine.submit_many([second, first, third])
    assert (alone.state, again.reused) == (S.FAILED, True)
    assert told[0] == (alone.job_id, S.FAILED)
    assert sorted(told[1:]) == sorted([(first.id, S.FAILED), (second.id, S.FAILED)])


def test_those_that_end_with_another_are_told_too(trial: Trial, make_kind: MakeKind) -> None:
    """Jobs that fail because a dependency ended badly are ends of their own, after the one that caused them."""
    told: list[str] = []
    with trial.open(kind := make_kind(nothing)) as engine:
        engine.on_end(lambda job: told.append(job.id))
        first = engine.submit(kind, None).job_id
        second = engine.submit(kind, None, depends_on=[first], on_dependency="fail").job_id
        third = engine.submit(kind, None, depends_on=[second], on_dependency="fail").job_id
        engine.cancel(first)
    assert told == [first, second, third]


@pytest.mark.parametrize("fault", [ValueError("wrong"), SystemExit(3), KeyboardInterrupt()])
def test_a_listener_that_fails_harms_nobody(trial: Trial, make_kind: MakeKind, fault: BaseException) -> None:
    """What a listener raises is reported; the end stands, the worker goes on, later ends are told, nobody waits."""
    told: list[str] = []

    def broken(job: Job) -> None:
        told.append(job.id)
        raise fault

    with trial.open(kind := make_kind(nothing)) as engine:
        engine.on_end(broken)
        jobs = [engine.submit(kind, None).job_id for _ in range(3)]
        assert engine.work().ended == 3
        assert [engine.wait(job_id).state for job_id in jobs] == [S.COMPLETED] * 3
    assert told == jobs
    assert [line["level"] for line in trial.log("engine")] == ["error"] * 3
    assert type(fault).__name__ in trial.log("engine")[0]["message"]


def test_a_listener_that_hangs_does_not_hold_the_worker_for_ever(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker ends although a listener does not return; the ends are durable."""
    monkeypatch.setattr(workers, "GRACE_S", 0.2)
    let_go = threading.Event()
    with trial.open(kind := make_kind(nothing)) as engine:
        engine.on_end(lambda job: let_go.wait(LIMIT_S) and None)
        job_id = engine.submit(kind, None).job_id
        assert engine.work().ended == 1
        assert engine.job(job_id).state is S.COMPLETED
        let_go.set()


def test_a_wait_returns_after_the_listeners(trial: Trial, make_kind: MakeKind, in_thread: Any) -> None:
    """`wait` in the process that writes the end returns only when its listeners have returned."""
    order: list[str] = []
    heard, go_on = threading.Event(), threading.Event()

    def listener(job: Job) -> None:
        heard.set()
        assert go_on.wait(LIMIT_S)
        order.append("listener")

    with trial.open(kind := make_kind(nothing)) as engine:
        engine.on_end(listener)
        job_id = engine.submit(kind, None).job_id
        working = in_thread(engine.work)
        assert heard.wait(LIMIT_S)
        assert engine.job(job_id).state is S.COMPLETED
        waiting = in_thread(lambda: (engine.wait(job_id), order.append("waiter")))
        threading.Event().wait(0.05)
        assert order == []
        go_on.set()
        waiting.result()
        working.result()
    assert order == ["listener", "waiter"]


def test_a_wait_has_its_time(trial: Trial, make_kind: MakeKind) -> None:
    """`wait` answers the job as it stands when its time is over, also when listeners still run; and leaves no pipe."""
    with trial.open(kind := make_kind(nothing), real_time=True) as engine:
        job_id = engine.submit(kind, None).job_id
        assert engine.wait(job_id, 0.02).state is S.QUEUED
        assert engine.wait(job_id, -1).state is S.QUEUED
        assert list(engine.workspace.wake_folder.iterdir()) == []


def test_a_wait_sees_a_cancel_from_elsewhere(trial: Trial, make_kind: MakeKind, in_thread: Any) -> None:
    """Whoever waits is woken by an end that no worker wrote."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine, trial.open(kind, access="write") as other:
        job_id = engine.submit(kind, None).job_id
        waiting = in_thread(lambda: other.wait(job_id).state)
        engine.cancel(job_id)
        assert waiting.result() is S.CANCELLED


def test_a_durable_listener_is_told_until_it_acknowledges(trial: Trial, make_kind: MakeKind) -> None:
    """A notice is handed over again, under the same id and in order, until `receive` returned; then never again."""
    first: list[Notice] = []
    second: list[Notice] = []
    with trial.open(kind := make_kind(lambda context, input: trial.clock.advance(1))) as engine:
        before = engine.submit(kind, None).job_id
        engine.work()
        engine.listen("mail")
        engine.listen("mail")
        jobs = [engine.submit(kind, None).job_id for _ in range(3)]
        engine.work()

        def fail_at_the_second(notice: Notice) -> None:
            first.append(notice)
            if len(first) == 2:
                raise OSError("the mail server is gone")

        with pytest.raises(OSError, match="mail server"):
            engine.deliver("mail", fail_at_the_second)
    with trial.open(kind, access="write") as engine:
        assert engine.deliver("mail", second.append, limit=1) == 1
        assert engine.deliver("mail", second.append) == 1
        assert engine.deliver("mail", second.append) == 0
    assert [notice.job_id for notice in first] == jobs[:2]
    assert [notice.job_id for notice in second] == jobs[1:]
    assert first[1] == second[0]
    assert {notice.state for notice in first + second} == {S.COMPLETED}
    assert before not in {notice.job_id for notice in first + second}


def test_each_durable_listener_has_its_own_notices(trial: Trial, make_kind: MakeKind) -> None:
    """What one listener has acknowledged another one still gets; an unknown name gets nothing."""
    with trial.open(kind := make_kind(nothing)) as engine:
        engine.listen("mail")
        engine.listen("audit")
        engine.submit(kind, None)
        engine.work()
        told: dict[str, list[Notice]] = {name: [] for name in ("mail", "audit", "nobody")}
        for name, notices in told.items():
            engine.deliver(name, notices.append)
    assert {name: len(notices) for name, notices in told.items()} == {"mail": 1, "audit": 1, "nobody": 0}
    assert told["mail"][0].id != told["audit"][0].id


def test_a_job_started_again_ends_again(trial: Trial, make_kind: MakeKind) -> None:
    """Each end has a notice of its own: a job that is requeued and ends again is told twice, under two ids."""
    notices: list[Notice] = []
    with trial.open(kind := make_kind(nothing)) as engine:
        engine.listen("mail")
        job_id = engine.submit(kind, None).job_id
        engine.cancel(job_id)
        engine.requeue(job_id, "on second thought")
        engine.work()
        engine.deliver("mail", notices.append)
    assert [notice.state for notice in notices] == [S.CANCELLED, S.COMPLETED]
    assert len({notice.id for notice in notices}) == 2


def test_a_reader_cannot_change_anything(trial: Trial, make_kind: MakeKind) -> None:
    """An engine opened to read refuses by name what would write."""
    with trial.open(kind := make_kind(nothing)) as engine:
        job_id = engine.submit(kind, None).job_id
    with trial.open(kind, access="read") as engine:
        for change in (lambda: engine.submit(kind, None), lambda: engine.cancel(job_id), lambda: engine.listen("x")):
            with pytest.raises(NotAllowed, match="opened to read"):
                change()
        assert engine.job(job_id).state is S.QUEUED
