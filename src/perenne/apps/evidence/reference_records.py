"""Rows of the reference program's job store as records of ours (EV-2): states, ids, attempts, history, times.

Pure: rows in, mappings of `perenne.workspace.export.v1` out. Reading the store is `reference_store`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perenne.apps.evidence.jobs import ACTIVE_LIMIT_S, PUBLICATIONS
from perenne.apps.evidence.reference_store import Content, refuse_value
from perenne.apps.evidence.reference_words import ACTIVE, FINAL, OUTCOMES, STATES, VERBS, cut, instant, word_of
from perenne.apps.evidence.requests import CAPABILITY_OF_TYPE, MAIL_HEADERS, MailInput, PictureInput
from perenne.errors import NotAllowed

Record = dict[str, Any]
Row = Mapping[str, Any]

ACTOR = "reference"


def conflicts(content: Content) -> list[list[str]]:
    """The jobs that are active for the same evidence and capability, where there are several (T-13)."""
    same = defaultdict(list)
    for row in content.jobs:
        if row["state"] in ACTIVE:
            same[row["source_evidence_id"], row["capability_id"]].append(str(row["job_id"]))
    return [ids for ids in same.values() if len(ids) > 1]


def refuse_conflicts(content: Content) -> None:
    """Raises: NotAllowed: names the first two jobs, and the command that gives one of them up."""
    for first, second, *_ in conflicts(content):
        raise NotAllowed(
            f"jobs {first} and {second} both analyse the same evidence in the same way, and only one may; nothing was "
            f"adopted, give one up with `perenne evidence adopt --cancel {second}`",
            jobs=[first, second],
        )


def records(content: Content, capacity: int) -> list[Record]:
    """Every record of a store, in the order in which the engine takes them.

    Args: capacity: bound of the queue, in unfinished jobs.
    Raises: InvalidInput: names the row, the field and the value that no job of ours could have.
    """
    jobs = _placed(content)
    attempts = [_attempt(row, jobs) for row in content.attempts]
    unfinished = sum(job["finished_at"] is None for job in jobs.values())
    queue = {"record": "queue", "name": "default", "capacity": max(capacity, unfinished), "unfinished": unfinished}
    queue |= {"paused": False, "stopped": False}
    return [
        queue,
        *_owners(attempts),
        *jobs.values(),
        *attempts,
        *_dependencies(content.jobs),
        *_history(content, jobs),
    ]


def _placed(content: Content) -> dict[str, Record]:
    """The jobs by id, at places in the order of writing, in which what is needed comes first."""
    tried = defaultdict(list)
    for row in content.attempts:
        tried[row["job_id"]].append(row)
    ended = {row["job_id"]: row["created_at"] for row in content.transitions}
    states = {row["job_id"]: row["state"] for row in content.jobs}
    order = {id: rank for rank, id in enumerate(sorted(states, key=lambda id: _turn(content, id)))}
    jobs: dict[str, Record] = {}
    for seq, row in enumerate(content.jobs, 1):
        if row["dependency_job_id"] not in (None, *jobs):
            refuse_value(f"job {row['job_id']}", "dependency_job_id", row["dependency_job_id"], "is no job before it")
        changed_at = ended.get(row["job_id"], row["requested_at"])
        jobs[row["job_id"]] = _job(row, tried[row["job_id"]], states, changed_at) | {
            "seq": seq,
            "rank": order[row["job_id"]],
        }
    _keep_one_key(jobs)
    return jobs


def _turn(content: Content, id: str) -> tuple[str, str]:
    """The reference claims by the instant of the request, then by id."""
    requested_at = next(row["requested_at"] for row in content.jobs if row["job_id"] == id)
    return str(requested_at), str(id)


def _job(row: Row, tried: Sequence[Row], states: Mapping[str, str], changed_at: str) -> Record:
    where = f"job {row['job_id']}"
    state, reason, diagnostic = _standing(row, states)
    final, spent = state in FINAL, row["attempt_count"]
    changed = instant(where, "created_at", changed_at)
    running = tried[-1]["attempt_id"] if state == "RUNNING" and tried else None
    if running is not None and tried[-1]["rank"] != spent:
        refuse_value(where, "attempt_count", spent, f"is not the rank of its attempt, {tried[-1]['rank']}")
    return {
        "record": "job",
        "id": row["job_id"],
        "kind": _kind(where, row),
        "version": 1,
        "queue": "default",
        "state": state,
        "reason": reason,
        "priority": 0,
        "submitted_at": instant(where, "requested_at", row["requested_at"]),
        "due_at": 0,
        "key": row["job_id"],
        "unique_key": f"{row['source_evidence_id']}×{row['capability_id']}",
        "input": _input(where, row, final),
        "publications": _publications(row),
        "requested_at": instant(where, "requested_at", row["requested_at"]),
        "on_dependency": "block",
        "unmet": _unmet(row, states),
        "max_attempts": row["max_attempts"],
        "spent": spent,
        "number": spent,
        "failures": sum(one["state"] == "FAILED" for one in tried),
        "interruptions": sum(one["state"] == "INTERRUPTED" for one in tried),
        "attempt": running,
        "cancel_asked": bool(row["cancel_requested"]) and state == "RUNNING",
        "pause_asked": False,
        "active_ms": sum(one["elapsed_active_ms"] or 0 for one in tried),
        "active_limit_ms": round(ACTIVE_LIMIT_S * 1000),
        "progress_done": 0,
        "progress_total": None,
        "progress_message": None,
        "result": None,
        "diagnostic": diagnostic,
        "updated_at": changed,
        "finished_at": changed if final else None,
        "revision": row["revision"],
    }


def _standing(row: Row, states: Mapping[str, str]) -> tuple[str, str, str | None]:
    """State, reason and diagnostic; what the reference knows no word for it reads as BLOCKED, and so do we."""
    state, said = row["state"], cut(row["diagnostic"])
    if state not in STATES:
        return "BLOCKED", "adopted", cut(f"the state {state!r} is unknown; release the job, or cancel it")
    if state in ("QUEUED", "RETRY_WAIT") and _unmet(row, states):
        bad = states.get(row["dependency_job_id"]) in ("FAILED", "CANCELLED")
        return "BLOCKED", "dependency_failed" if bad else "waiting_for_dependencies", said
    if state == "BLOCKED":
        return state, "active_time_limit" if row["result_status"] == "limit_reached" else "adopted", said
    return state, "adopted", said


def _unmet(row: Row, states: Mapping[str, str]) -> int:
    needed = row["dependency_job_id"]
    return int(needed is not None and states.get(needed) != "COMPLETED")


def _kind(where: str, row: Row) -> str:
    kind = row["capability_id"]
    if kind not in CAPABILITY_OF_TYPE.values():
        refuse_value(where, "capability_id", kind, f"is none of {', '.join(CAPABILITY_OF_TYPE.values())}")
    return str(kind)


def _input(where: str, row: Row, final: bool) -> bytes:
    """What the handler will read; of a job that has ended only the form is asked, since nobody runs it as it is."""
    try:
        given = {
            "evidence_id": row["source_evidence_id"],
            "source_sha256": row["source_sha256"],
            "source_size": row["source_size"],
            "parameters": msgspec.json.decode(row["parameters_json"]),
        }
        if not final:
            msgspec.convert(given, MailInput if row["capability_id"] == MAIL_HEADERS else PictureInput)
        return msgspec.json.encode(given)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        refuse_value(where, "input", row["parameters_json"], f"cannot be analysed ({error})")


def _publications(row: Row) -> str:
    ids = dict(zip(PUBLICATIONS, (row["request_id"], row["derivative_evidence_id"]), strict=True))
    return msgspec.json.encode(ids).decode()


def _keep_one_key(jobs: Mapping[str, Record]) -> None:
    """Ours counts what is blocked or in doubt as unfinished, the reference does not: the active one keeps the key."""
    held = {job["unique_key"] for job in jobs.values() if job["state"] in ACTIVE}
    for job in jobs.values():
        if job["finished_at"] is None and job["state"] not in ACTIVE:
            if job["unique_key"] in held:
                job["unique_key"] = None
            else:
                held.add(job["unique_key"])


def _attempt(row: Row, jobs: Mapping[str, Record]) -> Record:
    where = f"attempt {row['attempt_id']}"
    if row["job_id"] not in jobs:
        refuse_value(where, "job_id", row["job_id"], "is no job of this store")
    runs = jobs[row["job_id"]]["attempt"] == row["attempt_id"]
    ended = None if runs else instant(where, "finished_at", row["finished_at"] or row["heartbeat_at"])
    return {
        "record": "attempt",
        "id": row["attempt_id"],
        "job": row["job_id"],
        "number": row["rank"],
        "epoch": 1,
        "owner": row["owner_token"],
        "claimed_at": instant(where, "started_at", row["started_at"]),
        "ended_at": ended,
        "outcome": None if runs else OUTCOMES.get(row["state"], "interrupted"),
        "reason": cut(row["reconciliation"]),
        "spent": True,
        "active_ms": row["elapsed_active_ms"] or 0,
        "diagnostic": cut(row["diagnostic"]),
    }


def _owners(attempts: list[Record]) -> Iterator[Record]:
    """Each claim had a token of its own; here it is the worker that is dead, since we hold the lock."""
    for id, first in {one["owner"]: one for one in reversed(attempts)}.items():
        yield {
            "record": "owner",
            "id": id,
            "pid": 0,
            "boot_id": "unknown",
            "started": "unknown",
            "joined_at": first["claimed_at"],
            "left_at": None,
        }


def _dependencies(jobs: list[dict[str, Any]]) -> Iterator[Record]:
    for row in jobs:
        if row["dependency_job_id"] is not None:
            yield {"record": "dependency", "job": row["job_id"], "needs": row["dependency_job_id"], "waived": False}


def _history(content: Content, jobs: Mapping[str, Record]) -> Iterator[Record]:
    """The births, of which the reference writes no line (T-12), then its lines in their order."""
    seq = 0
    for seq, job in enumerate(jobs.values(), 1):
        born = "BLOCKED" if job["unmet"] else "QUEUED"
        yield _line(seq, job["id"], "submit", (None, born), "submitted", job["submitted_at"], None)
    claims: Counter[str] = Counter()
    for place, row in enumerate(content.transitions, seq + 1):
        at = instant(f"transition {place - seq}", "created_at", row["created_at"])
        before, after = word_of(row["from_state"]), word_of(row["to_state"]) or "BLOCKED"
        verb = "cancel" if before == after else VERBS.get(after, "retry")
        claims[row["job_id"]] += verb == "claim"
        # A line from no state is a birth, and every job has one already.
        moved = (before or "QUEUED", after)
        yield _line(place, row["job_id"], verb, moved, cut(row["reason"]) or "", at, claims[row["job_id"]] or None)


def _line(
    seq: int, job: str, verb: str, moved: tuple[str | None, str], reason: str, at: int, number: int | None
) -> Record:
    return {
        "record": "history",
        "seq": seq,
        "job": job,
        "subject": f"job:{job}",
        "verb": verb,
        "from_state": moved[0],
        "to_state": moved[1],
        "reason": reason,
        "actor": ACTOR,
        "at": at,
        "number": number,
    }
