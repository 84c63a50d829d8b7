"""The engine's own operations, with the sample application: opening, submitting, steering, working, recovering."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import children, stores
from harness.oracles import require
from harness.plan import Request
from harness.sample_app import Task
from harness.sample_trial import SampleTrial
from harness.trial import harmless

import perenne
from calls.cases import in_doubt, refused
from calls.operation import Operation, Performance
from perenne import Engine, Job, JobState
from perenne.runtime import clock

LATER = clock.Clock(lambda: clock.SYSTEM.now() + 3_600_000_000, clock.SYSTEM.monotonic)  # every retry is due
_SPACE = uuid.UUID("7d0d3a1e-0000-4000-8000-000000000001")
_DONE_BEFORE = frozenset(["NotAllowed", "AlreadyFinished"])


def request(number: int, kind: str, *needs: int, failures: int = 0) -> Request:
    ids = [str(uuid.uuid5(_SPACE, str(one))) for one in (number, *needs)]
    return Request(number, ids[0], f"sample.{kind}", Task(number, failures), tuple(ids[1:]))


REQUESTS = [request(0, "file"), request(1, "plain"), request(2, "file", 0, 1)]


class Calm(SampleTrial):
    """Every job of it ends well, whatever happened on the way; only `sample.broken` fails, as it always does."""

    def finish(self) -> None:
        self.run("finisher", lambda: _finish(self))
        for job in self.rows().job:
            expected = "FAILED" if job["kind"] == "sample.broken" else "COMPLETED"
            require(job["state"] == expected, "one fault ends no job for ever", job)


def _finish(trial: Calm) -> None:
    """All is submitted; time goes by, so that what waits is due; a person lets every job go on that waits for one."""
    children.submit(trial.root, trial.requests, trial.accepted)
    with perenne.open(trial.root, trial.app, access="work", clock=LATER) as engine:
        engine.on_end(lambda job: trial.told.write(job=job.id, state=str(job.state)))
        engine.resume()
        engine.resume(queue="default")
        engine.work(slots=2)
        while sum([_let_go_on(engine, job) for job in engine.jobs()]):
            engine.work(slots=2)
        receive = lambda notice: trial.delivered.write(id=notice.id, job=notice.job_id, state=notice.state)  # noqa: E731
        engine.deliver(children.LISTENER, receive)


def _let_go_on(engine: Engine, job: Job) -> bool:
    match job.state:
        case JobState.PAUSED:
            engine.resume(job.id)
        case JobState.CANCELLED:
            engine.requeue(job.id, "wanted after all")
        case JobState.BLOCKED:
            engine.release(job.id, "it goes without")
        case JobState.RECOVERY_REQUIRED:
            engine.resolve(job.id, JobState.QUEUED, "looked at, and found well")
        case _:
            return False
    return True


def _empty(folder: Path) -> Calm:
    return Calm(folder, REQUESTS)


def _submitted(folder: Path, requests: Sequence[Request] = REQUESTS) -> Calm:
    trial = Calm(folder, requests)
    trial.submit_all()
    return trial


def _worked_off(folder: Path) -> Calm:
    trial = _empty(folder)
    trial.work_off()
    return trial


def _walking(folder: Path) -> Calm:
    """One job that saves small states in its row and large ones in files."""
    return _submitted(folder, [request(0, "walk")])


def _after_a_death(point: str, make_it: Callable[[Path], Calm] | None = None) -> Callable[[Path], Calm]:
    def make(folder: Path) -> Calm:
        trial = _submitted(folder, REQUESTS[:1]) if make_it is None else make_it(folder)
        trial.kill(trial.worker(point), point)
        return trial

    return make


def _opening(access: Any) -> Callable[[Calm, Performance], None]:
    def perform(trial: Calm, performance: Performance) -> None:
        with performance.counting():
            engine = performance.tried("open", lambda: perenne.open(trial.root, trial.app, access=access))
            if engine is not None:
                performance.tried("close", engine.close)

    return perform


def submit(trial: Calm, performance: Performance) -> None:
    engine = perenne.open(trial.root, trial.app)
    with performance.counting():
        wanted = REQUESTS[0]
        call = lambda: engine.submit(wanted.kind, wanted.task, job_id=wanted.job_id, key=wanted.key)  # noqa: E731
        if receipt := performance.tried("submit", call):
            trial.accepted.write(job=receipt.job_id)
        performance.tried("close", engine.close)


def submit_many(trial: Calm, performance: Performance) -> None:
    engine = perenne.open(trial.root, trial.app)
    batch = [
        engine.request(one.kind, one.task, job_id=one.job_id, key=one.key, depends_on=one.depends_on)
        for one in REQUESTS
    ]
    with performance.counting():
        for receipt in performance.tried("submit", lambda: engine.submit_many(batch)) or ():
            trial.accepted.write(job=receipt.job_id)
        performance.tried("close", engine.close)


def all_or_nothing(trial: Calm, answers: list[dict[str, Any]]) -> None:
    """What was refused is not there, what was accepted is, and never half of a batch."""
    stored = {job["id"] for job in trial.rows().job}
    wanted = {line["job"] for line in trial.accepted.read()}
    if refused(answers, "submit"):
        require(not stored, "what was refused is not there", stored)
    elif not in_doubt(answers, "submit"):
        require(stored == wanted, "what was accepted is there", stored, wanted)
    require(len(stored) in (0, 1, len(REQUESTS)), "a batch comes whole", stored)


STEERED = [request(0, "plain"), request(1, "plain"), request(2, "file"), request(3, "broken"), request(4, "plain", 3)]
_CALM, _CANCELLED, _DOUBTFUL, _BROKEN, _BLOCKED = (one.job_id for one in STEERED)


def _to_steer(folder: Path) -> Calm:
    """One job in doubt, one blocked by another that failed, and two that wait behind a closed queue."""
    trial = Calm(folder, STEERED)
    wrong = trial.root / stores.FOLDER
    trial.run("submitter", lambda: children.submit(trial.root, STEERED[2:], trial.accepted))
    unit = _unit_of(trial, _DOUBTFUL)
    (wrong / f"{unit}.json").write_text("not what was to be published")
    trial.run("worker", lambda: children.work(trial.root, trial.told, slots=1, stay=False))
    (wrong / f"{unit}.json").unlink()
    trial.submit_all()
    states = {job["id"]: job["state"] for job in trial.rows().job}
    require(states[_DOUBTFUL] == "RECOVERY_REQUIRED", "the bench has a job in doubt", states)
    require(states[_BLOCKED] == "BLOCKED", "the bench has a blocked job", states)
    return trial


def _unit_of(trial: Calm, job_id: str) -> str:
    import json

    return str(next(json.loads(job["publications"])["unit"] for job in trial.rows().job if job["id"] == job_id))


def steer(trial: Calm, performance: Performance) -> None:
    engine = perenne.open(trial.root, trial.app)
    steps: list[tuple[str, Callable[[], object]]] = [
        ("pause", lambda: engine.pause(_CALM)),
        ("resume", lambda: engine.resume(_CALM)),
        ("cancel", lambda: engine.cancel(_CANCELLED)),
        ("requeue", lambda: engine.requeue(_CANCELLED, "again")),
        ("release", lambda: engine.release(_BLOCKED, "without it")),
        ("resolve", lambda: engine.resolve(_DOUBTFUL, JobState.QUEUED, "looked at")),
        ("pause a queue", lambda: engine.pause(queue="default")),
        ("resume a queue", lambda: engine.resume(queue="default")),
        ("stop", engine.stop),
        ("resume all", engine.resume),
        ("close", engine.close),
    ]
    with performance.counting():
        for step, work in steps:
            performance.tried(step, work)


def _after_a_refusal(trial: Calm, answers: list[dict[str, Any]]) -> None:
    """A verb that was refused left no line in the history."""
    lines = [(line["verb"], line["subject"]) for line in trial.rows().history]
    for verb, subject in (("cancel", _CANCELLED), ("release", _BLOCKED), ("resolve", _DOUBTFUL)):
        said = (verb, f"job:{subject}") in lines
        require(not (said and refused(answers, verb)), "what was refused is not in the history", verb)


def work(trial: Calm, performance: Performance) -> None:
    engine = perenne.open(trial.root, trial.app, access="work", clock=LATER)
    engine.on_end(lambda job: trial.told.write(job=job.id, state=str(job.state)))
    with performance.counting():
        performance.tried("work", engine.work)
        performance.tried("close", engine.close)


def deliver(trial: Calm, performance: Performance) -> None:
    engine = perenne.open(trial.root, trial.app)
    with performance.counting():
        performance.tried("listen", lambda: engine.listen("somebody"))
        receive = lambda notice: trial.delivered.write(id=notice.id, job=notice.job_id, state=notice.state)  # noqa: E731
        performance.tried("deliver", lambda: engine.deliver(children.LISTENER, receive))
        performance.tried("look", lambda: engine.jobs())
        performance.tried("close", engine.close)


def _operation(name: str, make: Callable[[Path], Any], perform: Any, judge: Any = None, **more: Any) -> Operation:
    return Operation(name, make, perform, judge or (lambda trial, answers: harmless()), **more)


OPERATIONS = (
    _operation("open to read", _submitted, _opening("read")),
    _operation("open to write", _submitted, _opening("write")),
    _operation("open to work", _submitted, _opening("work")),
    _operation("submit", _empty, submit, all_or_nothing),
    _operation("submit many", _empty, submit_many, all_or_nothing),
    _operation("steer", _to_steer, steer, _after_a_refusal, repeated=_DONE_BEFORE),
    _operation("work", _submitted, work),
    _operation("recover a stage", _after_a_death("publish.staged"), work),
    _operation("recover a result", _after_a_death("acknowledge.begun"), work),
    _operation("save checkpoints", _walking, work),
    _operation("go on from a file that is not promoted", _after_a_death("checkpoint.committed:3", _walking), work),
    _operation("go on past a file that is not committed", _after_a_death("checkpoint.staged:2", _walking), work),
    _operation("deliver", _worked_off, deliver),
)
