"""The door used once, as an application would; type-checked by `make check` and never run.

Each public name of `perenne` has a use here, so that a change of its shape is seen by the type checker first.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

import perenne
from perenne import (
    App,
    AsyncContext,
    Attempt,
    Backoff,
    Cancelled,
    Context,
    Doubt,
    Engine,
    Estimate,
    GiveUp,
    Job,
    JobState,
    Kind,
    Publication,
    Published,
    Snooze,
    errors,
)


class Letter(msgspec.Struct, frozen=True):
    """What a job is asked to do."""

    text: str


def lookup(publication: Publication) -> Published:
    place = publication.workspace / publication.ids["letter"]
    if not place.exists():
        return Published.absent()
    return Published.coherent({"bytes": place.stat().st_size}) if place.is_file() else Published.incoherent("a folder")


def discard(publication: Publication) -> None:
    (publication.workspace / f"{publication.ids['letter']}.stage").unlink(missing_ok=True)


def write(publication: Publication) -> int:
    letter: Letter = publication.input
    return (publication.workspace / publication.ids["letter"]).write_text(letter.text)


async def handle_awaiting(context: AsyncContext, letter: Letter) -> int:
    await context.boundary()
    return await context.publish(lambda publication: len(letter.text))


def handle(context: Context, letter: Letter) -> int | Snooze | GiveUp | Doubt:
    context.boundary()
    if context.threads < 1:
        context.sequence_break({"read": 1})
    context.measured(context.batch, peak_bytes=context.threads << 20)
    context.progress(1, total=2, message=f"attempt {context.attempt} of {context.job_id}")
    context.log("reading", place=str(context.stage), deadline=context.deadline)
    if not letter.text:
        return GiveUp("an empty letter is never sent")
    if context.stop.asked is not None:
        return Snooze(5.0, reason="someone asked to stop")
    try:
        context.may_publish()
    except Cancelled:
        raise
    written: int = context.publish(write)
    return written if written > 0 else Doubt("nothing was written")


KIND = Kind(
    name="letters.write",
    version=1,
    handler=handle,
    input_type=Letter,
    publications=("letter",),
    lookup=lookup,
    discard=discard,
    max_attempts=5,
    backoff=Backoff(base_s=0.5, cap_s=60.0),
    give_up_on=(ValueError,),
    active_limit_s=30.0,
    estimate=Estimate(memory_bytes=64 << 20, memory_per_item_bytes=1 << 20, max_batch=8, threads=2),
)
APP = App("letters", [KIND], queues={"default": 64}, runtime=".letters")


@APP.task(kind="letters.count", attempts=2)
def count(context: Context, words: list[str], at_least: int = 1) -> int:
    return sum(len(word) >= at_least for word in words)


@APP.task
def stamp(letter: str) -> str:
    return f"{letter}, stamped"


def enqueue(engine: Engine) -> str:
    stamped: str = stamp("a plain call")
    with engine.transaction() as tx:
        receipt = count.options(key="once").enqueue(stamped.split(), at_least=2)
        tx.execute("insert into letters_sent values (?)", (receipt.job_id,))
    return stamp.delay("another").job_id


async def enqueue_in_a_coroutine() -> bool:
    return (await stamp.aenqueue("from a coroutine")).reused


def make(folder: Path) -> str:
    return perenne.create(folder, APP, name="Letters", specimen=True).id


def work(folder: Path) -> Job:
    engine: Engine
    with perenne.open(folder, APP, access="work") as engine:
        engine.on_end(lambda job: print(job.state, job.result))
        receipt = engine.submit(KIND, Letter("hello"), key="first")
        report = engine.work(slots=2)
        assert report.ended == 1
        return engine.wait(receipt.job_id, timeout_s=1.0)


def look(folder: Path, job_id: str) -> list[Attempt]:
    with perenne.open(folder, APP, access="read") as engine:
        counts: dict[JobState, int] = engine.counts()
        return engine.attempts(job_id) if counts.get(JobState.COMPLETED) else []


def steer(engine: Engine, job_id: str) -> str:
    try:
        return engine.cancel(job_id).reason
    except errors.AlreadyFinished as refusal:
        return refusal.code


def what_a_refusal_tells(refusal: errors.RefusedError) -> tuple[str, str]:
    return refusal.code, str(refusal)
