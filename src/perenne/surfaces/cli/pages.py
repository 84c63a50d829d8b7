"""The pages of the looking commands, as lines of text: all jobs, one job, a line of a log, an end.

What does not live here: where the values come from, and rounding (`views`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from perenne.surfaces import views

if TYPE_CHECKING:
    from perenne import Engine, Job

WIDE = 110  # columns from which a table says more
_OTHERS = ("waiting_for_dependencies", "dependency_requeued")  # a job blocked by these goes on by itself
_BOOKKEEPING = ("level", "message", "at", "attempt")


def jobs(engine: Engine, states: Collection[str], limit: int, width: int) -> list[str]:
    """The whole workspace: its name and counts, its workers, its jobs."""
    view = engine.view.snapshot(unfinished=limit, finished=limit, states=states)
    shown = view.jobs[:limit]
    stand = sum(count for state, count in view.counts.items() if not states or state in states)
    left = stand - len(shown)
    return [
        *_head(engine, view),
        *(["", *_table(shown, width)] if shown else []),
        *([f"{views.count(left, 'more job')}; say --limit or --state"] if left > 0 else []),
    ]


def _head(engine: Engine, view: Any) -> Iterator[str]:
    yield f"{views.one_line(engine.workspace.name)}  {engine.workspace.root}"
    yield f"jobs: {views.states(view.counts)}"
    for queue in view.queues:
        word = _held(queue.stopped, queue.paused)
        yield f"queue {views.one_line(queue.name)}: {queue.unfinished:,} of {queue.capacity:,} unfinished{word}"
    for worker in view.workers:
        alive = {None: "", True: "", False: ", dead: the next worker settles what it left"}[engine.view.lives(worker)]
        yield f"worker {worker.pid}: runs {views.count(worker.running, 'job')}{alive}"
    if not view.workers:
        yield "no worker"
    if view.paused or view.stopped:
        yield f"the workspace is{_held(view.stopped, view.paused)[1:]}: nothing starts until `perenne resume --all`"


def _held(stopped: bool, paused: bool) -> str:
    return ", stopped" if stopped else ", paused" if paused else ""


def _table(found: list[Any], width: int) -> list[str]:
    wide = width >= WIDE
    head = ["job", "state", "tries", *(["since"] if wide else []), "kind", *(["what"] if wide else [])]
    now_s = time.time()
    rows = [
        [
            job.id,
            str(job.state),
            f"{job.number}",
            *([views.age(now_s - job.updated_at / 1e6)] if wide else []),
            job.kind,
            *([_what(job)] if wide else []),
        ]
        for job in found
    ]
    return views.table(head, rows, width=width, paint=views.painted)


def _what(job: Any) -> str:
    """What is to be said of a job beside its state."""
    if job.state == "RUNNING" and job.progress_total:
        return f"{job.progress_done:,}/{job.progress_total:,} {job.progress_message or ''}"
    asked = "cancel asked" if job.cancel_asked else "pause asked" if job.pause_asked else ""
    return asked or str(job.diagnostic or ("" if job.state in ("COMPLETED", "RUNNING") else job.reason))


def job(engine: Engine, id: str, width: int) -> list[str]:
    """One job whole."""
    page = engine.view.page(id)
    return [
        f"{page.id}  {views.painted(page.state)}  {views.one_line(page.reason)}",
        *views.pairs(list(_facts(page)), width),
        *_attempts(page, width),
        *_artefacts(page, width),
        *_history(page, width),
    ]


def _facts(page: Any) -> Iterator[tuple[str, str]]:
    yield "kind", f"{page.kind}@{page.version} in queue {page.queue}, priority {page.priority}"
    counted = f"{views.count(page.number, 'attempt')} begun, {page.spent} of {page.max_attempts} counted"
    yield (
        "tries",
        f"{counted}; {views.count(page.failures, 'failure')}, {views.count(page.interruptions, 'interruption')}",
    )
    if page.key is not None:
        yield "key", page.key
    if page.parent is not None:
        yield "parent", page.parent
    if page.waits_for:
        yield "waits for", views.count(page.waits_for, "job")
    if page.due_at:
        yield "not before", views.instant(page.due_at)
    if page.progress_total or page.progress_message:
        total = f"/{page.progress_total:,}" if page.progress_total else ""
        yield "progress", f"{page.progress_done:,}{total} {page.progress_message or ''}"
    limit = "" if page.active_limit_ms is None else f" of {views.duration(page.active_limit_ms / 1000)}"
    yield "active", f"{views.duration(page.active_ms / 1000)}{limit}"
    yield "submitted", views.instant(page.submitted_at)
    if page.finished_at is not None:
        yield "finished", views.instant(page.finished_at)
    yield "input", bytes(page.input).decode()
    if page.result is not None:
        yield "result", bytes(page.result).decode()
    if page.diagnostic is not None:
        yield "diagnostic", page.diagnostic


def _attempts(page: Any, width: int) -> list[str]:
    head = ["attempt", "began (UTC)", "outcome", "counts", "active", "why"]
    rows = [
        [
            str(one.number),
            _instant(one.claimed_at),
            str(one.outcome or "runs"),
            "yes" if one.spent else "no",
            views.duration(one.active_ms / 1000),
            one.diagnostic or one.reason or "",
        ]
        for one in page.attempts
    ]
    return ["", *views.table(head, rows, width=width)] if rows else []


def _artefacts(page: Any, width: int) -> list[str]:
    rows = [[one.name, views.size(one.size_bytes), one.media_type, one.digest[:12]] for one in page.artefacts]
    return ["", *views.table(["artefact", "size", "type", "sha256"], rows, width=width)] if rows else []


def _history(page: Any, width: int) -> list[str]:
    rows = [
        [_instant(line.at), line.verb, str(line.to_state or ""), _who(line.actor), line.reason] for line in page.history
    ]
    more = ["… and newer lines; see --json"] if page.truncated else []
    table = views.table(["when (UTC)", "verb", "state", "who", "why"], rows, width=width, paint=views.painted)
    return ["", *table, *more]


def _instant(at_us: int) -> str:
    return views.instant(at_us).removesuffix(" UTC")


def _who(actor: str) -> str:
    """A person, or a worker by the beginning of its id."""
    sort, _, name = actor.partition(":")
    return f"{sort}:{name[:8]}" if sort == "worker" else actor


def log_lines(said: dict[str, Any], as_json: bool) -> list[str]:
    """One line of a log; a value of several lines, such as a traceback, stands below it."""
    if as_json:
        return [json.dumps(said)]
    fields = {name: str(value) for name, value in said.items() if name not in _BOOKKEEPING}
    at, number = said.get("at"), said.get("attempt")
    head = [
        views.instant(at) if isinstance(at, int) else "",
        f"attempt {number}" if number else "",
        str(said.get("level", "")),
        views.one_line(str(said.get("message", ""))),
        *(f"{name}={views.one_line(value)}" for name, value in fields.items() if "\n" not in value),
    ]
    block = [line for value in fields.values() if "\n" in value for line in value.splitlines()]
    return [views.GAP.join(filter(None, head)), *(f"    {_printable(line)}" for line in block)]


def _printable(line: str) -> str:
    """The line with its indentation, and nothing that a terminal might obey."""
    return line[: len(line) - len(line.lstrip(" "))] + views.one_line(line)


def end(job: Job) -> str:
    """How a job ended, and what came of it."""
    came = job.result.decode() if job.result is not None else job.diagnostic or ("" if job.is_final else job.reason)
    return f"{job.id}  {views.painted(job.state)}  {views.one_line(came)}".rstrip()


def needs_a_person(job: Job) -> bool:
    """In doubt, or blocked by what does not come by itself."""
    if job.state == "BLOCKED":
        return job.reason not in _OTHERS
    return job.state in ("RECOVERY_REQUIRED", "PAUSED")
