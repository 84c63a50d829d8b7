"""A verb of the context in a warm child, against a bare round trip over a socket pair; and what a child costs a job.

What a verb does in the worker is the same for a thread and for a child, so the child's share is the difference between
the two. The bare round trip is of 32 bytes, between two processes that do nothing else. All of it is on one core: on
several, where the kernel happens to put two processes that wake each other decides more than what they do.
"""

from __future__ import annotations

import os
import select
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from figures import Figure

import perenne
from perenne import App, Context, Engine, Kind

WARM_UP = 200


class Calls(msgspec.Struct):
    """How many verbs are to be called, or where to say that a wish was heard."""

    count: int
    path: str = ""


def call_verbs(context: Context, calls: Calls) -> float:
    """Seconds that so many questions for the right to publish take."""
    for _ in range(WARM_UP):
        context.may_publish()
    started = time.perf_counter()
    for _ in range(calls.count):
        context.may_publish()
    return time.perf_counter() - started


def nothing(context: Context, calls: Calls) -> None:
    """A job that is all overhead."""


def hear(context: Context, calls: Calls) -> None:
    """Say when it was asked to stop, by the clock that all processes share."""
    Path(calls.path).touch()
    select.select([context.stop], [], [])
    Path(calls.path).write_text(str(time.monotonic()))
    context.boundary()


THREAD = Kind("verbs.thread", 1, call_verbs, Calls)
CHILD = Kind("verbs.child", 1, call_verbs, Calls, isolation="process")
NO_OP = {
    "thread": Kind("nothing.thread", 1, nothing, Calls),
    "child": Kind("nothing.child", 1, nothing, Calls, isolation="process"),
}
HEARS = Kind("hears.child", 1, hear, Calls, isolation="process")
APP = App("benchmark", [THREAD, CHILD, HEARS, *NO_OP.values()], queues={"default": 1_000_000})


def measure(folder: Path, *, rounds: int, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """The figures of a verb, of a job, and of a start."""
    verbs, jobs = (500, 50) if quick else (5_000, 500)
    perenne.create(folder / "workspace", APP, name="benchmark", specimen=True)
    with perenne.open(folder / "workspace", APP, access="work") as engine:
        bare_us: list[float] = []
        thread_us: list[float] = []
        child_us: list[float] = []
        with one_core():
            for number in range(rounds):
                # Who begins alternates, so that a machine that changes its pace changes all of them.
                order = (THREAD, CHILD) if number % 2 else (CHILD, THREAD)
                taken = {kind.name: _verb_us(engine, kind, verbs) for kind in order}
                bare_us.append(_round_trip_us(verbs))
                thread_us.append(taken[THREAD.name])
                child_us.append(taken[CHILD.name])
        free_us = [_verb_us(engine, CHILD, verbs) for _ in range(rounds)]
        ended_at: list[float] = []
        engine.on_end(lambda job: ended_at.append(time.perf_counter()))
        jobs_us = {name: [_job_us(engine, kind, jobs, ended_at) for _ in range(rounds)] for name, kind in NO_OP.items()}
        heard_ms = _heard_ms(engine, folder / "heard", 5 if quick else 20)
        cold_ms = [_first_job_ms(engine, NO_OP["child"]) for _ in range(rounds)]
    added = [child - thread for child, thread in zip(child_us, thread_us, strict=True)]
    ratios = [ours / bare for ours, bare in zip(added, bare_us, strict=True)]
    figures = [
        Figure("a verb: what a warm child adds / bare round trip", statistics.median(ratios), "ratio", "<= 3", ratios),
        Figure("from a cancel to its hearing in a child, the slowest", max(heard_ms), "ms", "<= 100", heard_ms),
        _shown("bare round trip", bare_us),
        _shown("may_publish in a thread", thread_us),
        _shown("may_publish in a warm child", child_us),
        _shown("may_publish in a warm child, on any core", free_us),
        _shown("a job that does nothing, in a thread", jobs_us["thread"]),
        _shown("a job that does nothing, in a child", jobs_us["child"]),
        _shown("a worker with one job, and the start of its child", cold_ms, "ms"),
    ]
    return {"rounds": rounds, "verbs_a_round": verbs, "jobs_a_round": jobs}, figures


@contextmanager
def one_core() -> Iterator[None]:
    """Everything that starts meanwhile shares a core, where a system lets us choose."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _shown(name: str, values: list[float], unit: str = "µs") -> Figure:
    return Figure(name, statistics.median(values), unit, "", values)


def _verb_us(engine: Engine, kind: Kind, count: int) -> float:
    job_id = engine.submit(kind, Calls(count)).job_id
    engine.work()
    job = engine.job(job_id)
    assert job.result is not None, job.diagnostic
    return msgspec.json.decode(job.result, type=float) / count * 1e6


def _job_us(engine: Engine, kind: Kind, count: int, ended_at: list[float]) -> float:
    """From the end of the first job to the end of the last, so that no start is in it."""
    for _ in range(count):
        engine.submit(kind, Calls(0))
    ended_at.clear()
    engine.work()
    return (ended_at[-1] - ended_at[0]) / (count - 1) * 1e6


def _heard_ms(engine: Engine, path: Path, count: int) -> list[float]:
    """From the call of `cancel` until its handler, in a child, hears of it."""
    worker = engine.worker()
    working = threading.Thread(target=lambda: worker.run(stay=True))
    working.start()
    heard: list[float] = []
    for _ in range(count):
        path.unlink(missing_ok=True)
        job_id = engine.submit(HEARS, Calls(0, str(path))).job_id
        while not path.exists():
            time.sleep(0.001)  # reason: the handler is in another process, which says nothing else
        asked_at = time.monotonic()
        engine.cancel(job_id)
        engine.wait(job_id)
        heard.append((float(path.read_text()) - asked_at) * 1e3)
    worker.stop()
    working.join()
    return heard


def _first_job_ms(engine: Engine, kind: Kind) -> float:
    """A worker from its start to its end, with one job."""
    engine.submit(kind, Calls(0))
    started = time.perf_counter()
    engine.work()
    return (time.perf_counter() - started) * 1e3


def _round_trip_us(count: int) -> float:
    near, far = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        near.close()
        while data := far.recv(4096):
            far.send(data)
        os._exit(0)
    far.close()
    message = b"x" * 32
    for _ in range(WARM_UP):
        near.send(message)
        near.recv(4096)
    started = time.perf_counter()
    for _ in range(count):
        near.send(message)
        near.recv(4096)
    taken_s = time.perf_counter() - started
    near.close()
    os.waitpid(pid, 0)
    return taken_s / count * 1e6


if __name__ == "__main__":
    sys.exit("run it with: make bench, or python benchmarks/run.py children")
