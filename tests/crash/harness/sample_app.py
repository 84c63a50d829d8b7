"""A small application with one kind for each way a job can live: publish, return, run a tool, fail, wait.

Its handlers keep a journal of what they did, outside the workspace, so that the oracles need not believe the engine.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness import stores
from harness.journal import Journal
from perenne import App, Backoff, Context, GiveUp, Kind, Publication, Published, tools
from perenne.crashpoints import crash_point

TOOL_LIMITS = tools.Limits(
    wall_s=20.0,
    cpu_s=10,
    address_space_bytes=1 << 28,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=4096,
    stderr_bytes=4096,
)
CAPACITY = 400
_BACKOFF = Backoff(base_s=0.01, cap_s=0.05)


class Task(msgspec.Struct, frozen=True):
    """Which job this is, how many of its attempts fail, and how long it works, in boundaries of 2 ms."""

    number: int
    failures: int = 0
    boundaries: int = 0


class Trouble(Exception):
    """A failure on purpose."""


def journal_of(root: Path) -> Journal:
    """Where the handlers of the workspace at `root` say what they did."""
    return Journal(root.parent / "executed.jsonl")


def create(root: Path) -> None:
    """The memory of the application, beside the engine's."""
    stores.create(root)


def _begin(context: Context, look: Callable[[Publication], Published] | None) -> Journal:
    """Say that the handler was called, and whether its result stood already: then it should not have been."""
    already = look is not None and look(context.publication).state != "absent"
    journal = journal_of(context.workspace)
    journal.write(what="begin", job=context.job_id, attempt=context.attempt, already=already)
    return journal


def _work(context: Context, task: Task) -> None:
    for done in range(task.boundaries):
        context.boundary()
        context.progress(done, task.boundaries)
        select.select([context.stop], [], [], 0.002)
    context.boundary()


def _trouble(context: Context, task: Task) -> None:
    if context.attempt <= task.failures:
        raise Trouble(f"attempt {context.attempt} fails on purpose")


def publishing(store: type[stores.Files] | type[stores.Rows]) -> Callable[[Context, Task], dict[str, Any]]:
    """A handler that works, then publishes into this store."""

    def handler(context: Context, task: Task) -> dict[str, Any]:
        journal = _begin(context, store.lookup)
        _work(context, task)
        _trouble(context, task)
        context.publish(store.publish)
        journal.write(what="published", job=context.job_id, attempt=context.attempt)
        return stores.result_of(context.publication)

    return handler


def compute(context: Context, task: Task) -> dict[str, int]:
    """No publication: the result lives in the ledger alone."""
    _begin(context, None)
    _work(context, task)
    _trouble(context, task)
    return {"doubled": 2 * task.number}


def use_tool(context: Context, task: Task) -> dict[str, Any]:
    """A private copy, a tool that reads it, and a published file. The tool of an attempt that fails never ends."""
    journal = _begin(context, stores.Files.lookup)
    copy = context.stage / "input"
    copy.write_text(f"result {task.number}")
    crash_point("run.copied")
    fails = context.attempt <= task.failures
    script = f"cat input | tee scratch; sleep {60 if fails else task.boundaries * 0.002}"
    limits = replace(TOOL_LIMITS, wall_s=0.05) if fails else TOOL_LIMITS
    answer = tools.run(["/bin/sh", "-c", script], cwd=context.stage, limits=limits, stop=context.stop)
    copy.unlink()
    crash_point("run.copy_removed")
    context.boundary()
    if answer.whole_stdout() != f"result {task.number}".encode():
        raise Trouble(f"the tool said {answer.stdout!r}")
    context.publish(stores.Files.publish)
    journal.write(what="published", job=context.job_id, attempt=context.attempt)
    return stores.result_of(context.publication)


def stuck_journal_of(root: Path) -> Journal:
    """Where a child says that it will not hear anything any more."""
    return Journal(root.parent / "stuck.jsonl")


def in_a_child(context: Context, task: Task) -> dict[str, Any]:
    """Publishes from a process of its own. An attempt that fails crashes."""
    journal = _begin(context, stores.Files.lookup)
    _work(context, task)
    if context.attempt <= task.failures:
        os.kill(os.getpid(), signal.SIGSEGV)
    context.publish(stores.Files.publish)
    journal.write(what="published", job=context.job_id, attempt=context.attempt)
    return stores.result_of(context.publication)


def outlive(context: Context, task: Task) -> dict[str, Any]:
    """In attempts that fail it may publish, and writes late: no death of its worker reaches it, but a kill does."""
    if context.attempt > task.failures:
        return in_a_child(context, replace_failures(task))
    journal = _begin(context, stores.Files.lookup)
    context.may_publish()
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no signal when the worker dies
    stuck, late = (
        json.dumps({"what": what, "job": context.job_id, "attempt": context.attempt}) for what in ("stuck", "published")
    )
    # Native code that holds the interpreter, so that no thread of this process hears anything; it says so itself.
    script = f"echo '{stuck}' >> '{stuck_journal_of(context.workspace).path}'; sleep {task.boundaries}; "
    ctypes.PyDLL(None).system((script + f"echo '{late}' >> '{journal.path}'").encode())
    os._exit(1)


def write_on(context: Context, task: Task) -> dict[str, Any]:
    """In attempts that fail: write without end, each time allowed to; another attempt publishes."""
    if context.attempt > task.failures:
        return in_a_child(context, replace_failures(task))
    journal = _begin(context, stores.Files.lookup)
    while True:
        context.may_publish()
        journal.write(what="written", job=context.job_id, attempt=context.attempt)


def replace_failures(task: Task) -> Task:
    """The same task, which works now."""
    return msgspec.structs.replace(task, failures=0, boundaries=0)


class Walked(msgspec.Struct, frozen=True):
    """How far a walk is, and what it carries: now little, now more than fits a row."""

    at: int
    carried: bytes

    @classmethod
    def of(cls, number: int, at: int) -> Walked:
        """The state that this job has after so many steps, and no other."""
        return cls(at, bytes([number % 256, at % 256]) * (50_000 if at % 2 else 10))


STEPS = 4


def walked_journal_of(root: Path) -> Journal:
    """Where walks say from where they go on, and what they have saved."""
    return Journal(root.parent / "walked.jsonl")


def walk(context: Context, task: Task) -> dict[str, int]:
    """Saves at each step; an attempt that shall fail does so half-way."""
    _begin(context, None)
    state, walked = context.state or Walked.of(task.number, 0), walked_journal_of(context.workspace)
    right = state == Walked.of(task.number, state.at)
    walked.write(what="begin", job=context.job_id, attempt=context.attempt, at=state.at, right=right)
    for at in range(state.at + 1, STEPS + 1):
        context.boundary()
        context.checkpoint(Walked.of(task.number, at))
        walked.write(what="saved", job=context.job_id, attempt=context.attempt, at=at)
        if at == STEPS // 2:
            _trouble(context, task)
    return {"doubled": 2 * task.number}


def kept_of(number: int) -> dict[str, bytes]:
    """What a job of this number keeps, by name: something of its own, and something that all have."""
    return {"own": b"%d" % number * 1000, "shared": b"the same for all" * 1000}


def keep(context: Context, task: Task) -> dict[str, int]:
    """Keeps two files; an attempt that shall fail does so after the first."""
    _begin(context, None)
    for name, content in kept_of(task.number).items():
        context.boundary()
        context.artefact(name, content)
        _trouble(context, task)
    return {"doubled": 2 * task.number}


def give_up(context: Context, task: Task) -> GiveUp:
    """Never works."""
    _begin(context, None)
    _work(context, task)
    return GiveUp("it never works")


def _kind(name: str, handler: Callable[..., Any], store: Any = None, **fields: Any) -> Kind:
    looks = {"publications": ("unit",), "lookup": store.lookup, "discard": store.discard} if store else {}
    return Kind(f"sample.{name}", 1, handler, Task, backoff=_BACKOFF, **looks, **fields)


APP = App(
    "sample",
    (
        _kind("file", publishing(stores.Files), stores.Files),
        _kind("row", publishing(stores.Rows), stores.Rows),
        _kind("plain", compute),
        _kind("tool", use_tool, stores.Files),
        _kind("broken", give_up),
        _kind("walk", walk, state_type=Walked),
        _kind("childwalk", walk, state_type=Walked, isolation="process"),
        _kind("keep", keep),
        _kind("childkeep", keep, isolation="process"),
        _kind("child", in_a_child, stores.Files, isolation="process"),
        _kind("writer", write_on, stores.Files, isolation="process"),
        _kind("outlive", outlive, stores.Files, isolation="process"),
    ),
    queues={"default": CAPACITY},
)
PUBLISHING = frozenset({"sample.file", "sample.row", "sample.tool", "sample.child", "sample.writer", "sample.outlive"})
