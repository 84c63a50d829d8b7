"""What the processes of a trial do: submit, steer, work, finish. Each runs in a child that may die at any moment.

Every answer of the engine is journalled after it was given, and synced, before the child goes on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import perenne
from harness.journal import Journal
from harness.plan import Request
from harness.sample_app import APP
from perenne import Engine, Job, JobState, crashpoints
from perenne.errors import AlreadyFinished, JobNotFound, NotAllowed, QueueFull, StoreBusy

LISTENER = "oracle"
# In doubt a job waits for a person, and the trial is over for it too; an oracle will say that it should not be.
RESTING = frozenset(["COMPLETED", "FAILED", "CANCELLED", "DEAD", "RECOVERY_REQUIRED"])


def create(root: Path) -> None:
    """A specimen workspace with one durable listener."""
    perenne.create(root, APP, name="crash trial", specimen=True)
    listen(root)


def listen(root: Path) -> None:
    """Ask for a durable notice of every end."""
    with perenne.open(root, APP) as engine:
        engine.listen(LISTENER)


def submit(root: Path, requests: Sequence[Request], accepted: Journal) -> None:
    """Submit what has no receipt yet, in order, until the queue is full."""
    held = {line["job"] for line in accepted.read()}
    with perenne.open(root, APP) as engine:
        for request in requests:
            if request.job_id not in held and not _submit_one(engine, request, accepted):
                return


def _submit_one(engine: Engine, request: Request, accepted: Journal) -> bool:
    try:
        receipt = engine.submit(
            request.kind,
            request.task,
            job_id=request.job_id,
            key=request.key,
            depends_on=request.depends_on,
            on_dependency=request.on_dependency,
            priority=request.priority,
            requested_at=1_790_000_000_000_000 + request.number,
        )
    except QueueFull:
        return False
    accepted.write(job=receipt.job_id, durability=receipt.durability)
    return True


def work(root: Path, told: Journal, *, slots: int, stay: bool) -> None:
    """A worker process; each end that it is told goes into a journal."""
    with perenne.open(root, APP, access="work") as engine:
        engine.on_end(lambda job: told.write(job=job.id, state=str(job.state)))
        engine.work(slots=slots, stay=stay)


def work_until_stopped(root: Path, told: Journal, point: str, passage: int, *, slots: int) -> None:
    """A worker that is stopped, as by SIGSTOP, at one passage of a point; whoever continues it lets it go on."""
    passed = 0

    def observer(name: str) -> None:
        nonlocal passed
        passed += name == point
        if name == point and passed == passage:
            os.kill(os.getpid(), signal.SIGSTOP)

    crashpoints.observe(observer)
    work(root, told, slots=slots, stay=False)


def work_and_mark(root: Path, told: Journal, executed: Journal, *, slots: int) -> None:
    """A worker that marks in the journal of the handlers when recovery looks at what an attempt left."""
    crashpoints.observe(lambda name: executed.write(what="looked") if name == "recover.looked_up" else None)
    work(root, told, slots=slots, stay=False)


def hold(root: Path) -> None:
    """Pause the queue."""
    with perenne.open(root, APP) as engine:
        engine.pause(queue="default")


def ask(root: Path, wishes: Sequence[tuple[str, str]], steered: Journal) -> None:
    """Ask for each of these verbs about a job, in this order."""
    with perenne.open(root, APP) as engine:
        for verb, job_id in wishes:
            _tell(engine, verb, job_id, steered)


def steer(root: Path, jobs: Sequence[str], steered: Journal, *, seed: int, moves: int) -> None:
    """A person of few words: cancels, pauses and resumes at random; what the engine grants is journalled."""
    luck = random.Random(seed)
    with perenne.open(root, APP) as engine:
        engine.resume()
        for _ in range(moves):
            verb = luck.choice(("cancel", "pause", "pause", "resume", "resume", "hold"))
            if verb == "hold":
                engine.pause(queue=luck.choice(("default", None)))
                time.sleep(0.005)  # reason: a pause that lasts, so that a worker can break it
                engine.resume(queue="default")
                engine.resume()
            else:
                _tell(engine, verb, luck.choice(jobs), steered)


def _tell(engine: Engine, verb: str, job_id: str, steered: Journal) -> None:
    try:
        job = getattr(engine, verb)(job_id)
    except (AlreadyFinished, NotAllowed, JobNotFound, StoreBusy):
        return
    assert isinstance(job, Job)
    steered.write(verb=verb, job=job_id, state=str(job.state))


def finish(root: Path, told: Journal, *, slots: int = 4) -> None:
    """Recover, let go on what a person holds back, cancel what can never start, and work until every job has ended."""
    with perenne.open(root, APP, access="work") as engine:
        engine.on_end(lambda job: told.write(job=job.id, state=str(job.state)))
        engine.resume()
        engine.resume(queue="default")
        engine.work(slots=slots)
        while _settle_waiting(engine) and _may_go_on(engine):
            engine.work(slots=slots)


def _may_go_on(engine: Engine) -> bool:
    """Whether work can bring any job further; if not, an oracle will say which one is stuck."""
    counts = engine.counts()
    return any(counts.get(JobState(state)) for state in ("QUEUED", "RETRY_WAIT", "RUNNING"))


def _settle_waiting(engine: Engine) -> bool:
    """Whether any job is still unfinished, after those that wait for a person were answered."""
    for job in _all(engine, JobState.PAUSED):
        engine.resume(job.id)
    while stuck := [job for job in _all(engine, JobState.BLOCKED) if job.reason == "dependency_failed"]:
        for job in stuck:
            engine.cancel(job.id, "its dependency ended badly")
    return any(state not in RESTING for state, count in engine.counts().items() if count)


def _all(engine: Engine, state: JobState) -> list[Job]:
    return engine.jobs(state=state, limit=10_000)


def deliver(root: Path, delivered: Journal) -> None:
    """Take every durable notice that is waiting."""
    with perenne.open(root, APP) as engine:
        engine.deliver(LISTENER, lambda notice: delivered.write(id=notice.id, job=notice.job_id, state=notice.state))
