"""What stands in the file beside what the model says, and the questions that need no model."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from machine.jobs import FINAL
from machine.model import Model
from machine.site import Site

Table = list[tuple[Any, ...]]

QUERIES = {
    "store": "select epoch, paused, stopped from store",
    "queue": "select name, capacity, unfinished, paused, stopped from queue order by name",
    "job": """
        select id, kind, queue, state, input, key, unique_key, priority, rank, submitted_at, due_at, on_dependency,
            max_attempts, unmet, spent, number, failures, interruptions, attempt, cancel_asked, pause_asked, active_ms,
            progress_done, progress_total, progress_message, result, finished_at, max_interruptions,
            parent
        from job order by seq""",
    "dependency": """
        select job.id, needed.id, waived from dependency
        join job on job.seq = job join job as needed on needed.seq = needs order by job, needs""",
    "attempt": """
        select job.id, attempt.number, attempt.id, epoch, owner, outcome, attempt.spent, attempt.active_ms
        from attempt join job on job.seq = job order by job, attempt.number""",
    "history": """
        select job.id, verb, from_state, to_state, history.number
        from history join job on job.seq = job order by job, history.seq""",
    "control": "select subject, verb from history where job is null order by seq",
    "notice": "select listener, job.id, notice.state from notice join job on job.seq = job order by 1, 2, 3",
}


def found(site: Site) -> dict[str, Table]:
    return {name: site.rows(query) for name, query in QUERIES.items()}


def expected(model: Model) -> dict[str, Table]:
    """The same tables by the model."""
    jobs = list(model.jobs.values())
    places = {job.id: place for place, job in enumerate(jobs)}
    return {
        "store": [(model.epoch, model.paused, model.stopped)],
        "queue": [
            (name, queue.capacity, model.unfinished(name), queue.paused, queue.stopped)
            for name, queue in sorted(model.queues.items())
        ],
        "job": [_job(model, job) for job in jobs],
        "dependency": [
            (job.id, id, id in job.waived) for job in jobs for id in sorted(job.needs, key=places.__getitem__)
        ],
        "attempt": [
            (job.id, one.number, one.id, one.epoch, one.owner, one.outcome, one.spent, one.active_ms)
            for job in jobs
            for one in job.attempts
        ],
        "history": [(job.id, *line) for job in jobs for line in job.history],
        "control": model.controls,
        "notice": sorted(model.notices),
    }


def _job(model: Model, job: Any) -> tuple[Any, ...]:
    return (
        *(job.id, job.kind, job.queue, job.state, job.input, job.key, job.unique_key, job.priority, job.rank),
        *(job.submitted_at, job.due_at, job.on_dependency, job.max_attempts, len(model.missing(job)), job.spent),
        *(job.number, job.failures, job.interruptions, job.attempt, job.cancel_asked, job.pause_asked, job.active_ms),
        *(*job.progress, job.result, job.finished_at, job.max_interruptions, job.parent),
    )


def differences(one: dict[str, Table], other: dict[str, Table]) -> list[str]:
    """Where the file and the model differ."""
    return [
        f"{name}: the file holds {_only(one[name], other[name])}, the model {_only(other[name], one[name])}"
        for name in QUERIES
        if one[name] != other[name]
    ]


def _only(rows: Table, others: Table) -> Table:
    left = Counter(others)
    return [row for row in rows if not (left[row] and not left.subtract([row]))] or rows


# Without a model

MOVES = {
    ("submit", None): "QUEUED BLOCKED",
    ("release", "BLOCKED"): "QUEUED",
    ("fail", "BLOCKED"): "FAILED",
    ("claim", "QUEUED"): "RUNNING",
    ("claim", "RETRY_WAIT"): "RUNNING",
    ("complete", "RUNNING"): "COMPLETED",
    ("retry", "RUNNING"): "RETRY_WAIT",
    ("snooze", "RUNNING"): "RETRY_WAIT",
    ("fail", "RUNNING"): "FAILED",
    ("bury", "RUNNING"): "DEAD",
    ("requeue_interrupted", "RUNNING"): "QUEUED",
    ("suspend", "RUNNING"): "QUEUED",
    ("doubt", "RUNNING"): "RECOVERY_REQUIRED",
    ("resume", "PAUSED"): "QUEUED RETRY_WAIT BLOCKED",
    ("resume", "PAUSED_QUOTA"): "QUEUED BLOCKED",
    ("resolve", "RECOVERY_REQUIRED"): "COMPLETED QUEUED FAILED",
    **{(f"ask_{wish}", "RUNNING"): "RUNNING" for wish in ("cancel", "pause", "resume")},
    **{("requeue", state): "QUEUED BLOCKED" for state in ("FAILED", "CANCELLED", "DEAD")},
    **{("reject", state): "FAILED" for state in ("QUEUED", "RETRY_WAIT")},
    **{("block", state): "BLOCKED" for state in ("QUEUED", "RETRY_WAIT", "RUNNING")},
    **{("quota", state): "PAUSED_QUOTA" for state in ("QUEUED", "RETRY_WAIT", "RUNNING")},
    **{("pause", state): "PAUSED" for state in ("QUEUED", "RETRY_WAIT", "BLOCKED", "RUNNING")},
    **{
        ("cancel", state): "CANCELLED"
        for state in ("QUEUED", "RETRY_WAIT", "BLOCKED", "PAUSED", "PAUSED_QUOTA", "RUNNING")
    },
}


def illegal(rows: dict[str, Table]) -> list[str]:
    """What no ledger may hold, whatever was done to it."""
    lines: dict[str, Table] = defaultdict(list)
    for id, *line in rows["history"]:
        lines[id].append(tuple(line))
    open_ones = Counter(row[0] for row in rows["attempt"] if row[5] is None)
    wrong = [fault for row in rows["job"] for fault in _history_faults(row[0], row[3], lines[row[0]])]
    wrong += [
        f"{row[0]} is {row[3]} with {open_ones[row[0]]} open attempts"
        for row in rows["job"]
        if _is_torn(row, open_ones)
    ]
    counted = Counter(row[2] for row in rows["job"] if row[3] not in FINAL)
    wrong += [f"queue {row} holds {counted[row[0]]}" for row in rows["queue"] if row[2] != counted[row[0]]]
    wrong += [f"queue {row} is over its bound" for row in rows["queue"] if row[2] > row[1]]
    told = Counter((listener, id) for listener, id, _ in rows["notice"])
    ends = Counter(id for id, _, _, to, _ in rows["history"] if to in FINAL)
    wrong += [f"{id} ended {ends[id]} times, {count} notices" for (_, id), count in told.items() if count > ends[id]]
    return wrong


def _is_torn(row: tuple[Any, ...], open_ones: Counter[str]) -> bool:
    runs = row[3] == "RUNNING"
    return open_ones[row[0]] != runs or (row[18] is not None) != runs


def _history_faults(id: str, state: str, lines: Table) -> list[str]:
    """From its birth to where it stands, by allowed moves only; what is final is left by a person's requeue alone."""
    wrong, at = [], None
    for verb, source, target, _ in lines:
        if source != at or target not in MOVES.get((verb, source), "").split():
            wrong.append(f"{id}: {verb} from {source} to {target} while it was {at}")
        at = target
    return wrong if at == state else [*wrong, f"{id} is {state}, its history ends at {at}"]
