"""The questions asked of a ledger that woke up after a power cut, in plain SQL through the standard library's SQLite.

What lives here: what must hold whatever was lost, and the life of a job once more by hand. The engine is not asked, and
nothing of it is imported.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

Facts = Mapping[tuple[str, str], tuple[Any, ...]]

FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "DEAD"})
_WAITING = "QUEUED RETRY_WAIT"
_MOVES = {
    "submit": " > QUEUED BLOCKED",
    "release": "BLOCKED > QUEUED",
    "claim": f"{_WAITING} > RUNNING",
    "complete": "RUNNING > COMPLETED",
    "retry": "RUNNING > RETRY_WAIT",
    "snooze": "RUNNING > RETRY_WAIT",
    "block": f"{_WAITING} RUNNING > BLOCKED",
    "fail": "BLOCKED RUNNING > FAILED",
    "reject": f"{_WAITING} > FAILED",
    "bury": "RUNNING > DEAD",
    "requeue_interrupted": "RUNNING > QUEUED",
    "suspend": "RUNNING > QUEUED",
    "doubt": "RUNNING > RECOVERY_REQUIRED",
    "quota": f"{_WAITING} RUNNING > PAUSED_QUOTA",
    "cancel": f"RUNNING {_WAITING} BLOCKED PAUSED PAUSED_QUOTA > CANCELLED",
    "pause": f"RUNNING {_WAITING} BLOCKED > PAUSED",
    "resume": "PAUSED PAUSED_QUOTA > QUEUED RETRY_WAIT BLOCKED",
    "resolve": "RECOVERY_REQUIRED > COMPLETED QUEUED FAILED",
    "requeue": "FAILED CANCELLED DEAD > QUEUED BLOCKED",
    "ask_cancel": "RUNNING > RUNNING",
    "ask_pause": "RUNNING > RUNNING",
    "ask_resume": "RUNNING > RUNNING",
}


class Wrong(Exception):
    """A promise was broken. `kind` is corrupt, schema, lost, half or unknown."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


def ask_sqlite(connection: sqlite3.Connection) -> None:
    """The file is whole."""
    found = [row[0] for row in connection.execute("pragma integrity_check")]
    if found != ["ok"]:
        raise Wrong("corrupt", f"integrity_check: {found[:3]}")
    dangling = connection.execute("pragma foreign_key_check").fetchall()
    if dangling:
        raise Wrong("corrupt", f"foreign_key_check: {dangling[:3]}")


Objects = frozenset[tuple[str, str, str]]


def schemas(migrations: list[str]) -> list[Objects]:
    """The objects of each schema version, from 0, as this SQLite makes them."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    found = [objects(connection)]
    for text in migrations:
        connection.executescript(text)
        found.append(objects(connection))
    connection.close()
    return found


def objects(connection: sqlite3.Connection) -> Objects:
    return frozenset(connection.execute("select type, name, sql from sqlite_schema where sql is not null"))


def ask_schema(connection: sqlite3.Connection, known: list[Objects]) -> int:
    """The version that the file says it has is the one whose objects stand in it, whole; that version."""
    version = int(connection.execute("pragma user_version").fetchone()[0])
    if version >= len(known):
        raise Wrong("schema", f"version {version}, the newest is {len(known) - 1}")
    found = objects(connection)
    if found != known[version]:
        differs = sorted(name for _, name, _ in found ^ known[version])
        raise Wrong("schema", f"version {version} is not whole: {differs}")
    return version


def facts(connection: sqlite3.Connection) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Everything that a call can have acknowledged, as the rows say it now."""
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    for what, query in _FACTS.items():
        for name, *values in connection.execute(query):
            found[what, name] = tuple(values)
    return found


_FACTS = {
    "workspace": "select '', workspace, epoch, paused, stopped from store",
    "queue": "select name, capacity, paused, stopped from queue",
    "receipt": "select id, kind, queue, key, unique_key, input, priority, on_dependency, max_attempts from job",
    "needs": """
        select id, group_concat(needed, ' ')
        from (
            select job.id as id, needed.id as needed
            from dependency
            join job on job.seq = dependency.job
            join job as needed on needed.seq = dependency.needs
            order by job.id, needed.id
        )
        group by id""",
    "state": "select id, state, number, spent, result from job",
    "wish": "select id, cancel_asked, pause_asked from job where state = 'RUNNING'",
    "progress": "select id, progress_done, progress_total, progress_message from job where state = 'RUNNING'",
    "claim": "select attempt.id, job.id, attempt.number, epoch, owner from attempt join job on job.seq = attempt.job",
    "ended": """
        select attempt.id, outcome, attempt.active_ms
        from attempt where ended_at is not null""",
    "owner": "select id, pid, left_at is not null from owner",
    "listener": "select name from listener",
    "notice": "select notice.id, listener, job.id, notice.state from notice join job on job.seq = notice.job",
}


def ask_facts(found: Facts, before: Facts, after: Facts) -> None:
    """What was acknowledged is there; what the call under way would acknowledge may be there in its stead."""
    for name in sorted(before.keys() | after.keys()):  # the same finding for the same image
        known = [side.get(name) for side in (before, after)]
        if found.get(name) not in known:
            raise Wrong("lost", f"{name}: {found.get(name)} was found, {known[0]} was acknowledged")


def ask_agreement(connection: sqlite3.Connection) -> None:
    """No transaction is there by half: every table tells the same story as the history."""
    connection.row_factory = sqlite3.Row
    try:
        jobs = {row["seq"]: row for row in connection.execute("select * from job")}
        lines, attempts = _by_job(connection, "history", "seq"), _by_job(connection, "attempt", "number")
        for seq, job in jobs.items():
            for fault in (*_history_faults(job, lines[seq]), *_attempt_faults(job, attempts[seq], lines[seq])):
                raise Wrong("half", f"job {job['id']}: {fault}")
        strangers = (lines.keys() | attempts.keys()) - jobs.keys()
        if strangers:
            raise Wrong("half", f"lines or attempts of jobs that are not there: places {sorted(strangers)}")
        _ask_counters(connection, jobs)
        _ask_dependencies(connection, jobs)
    finally:
        connection.row_factory = None


def _by_job(connection: sqlite3.Connection, table: str, order: str) -> dict[int, list[sqlite3.Row]]:
    found: dict[int, list[sqlite3.Row]] = defaultdict(list)
    for row in connection.execute(f"select * from {table} where job is not null order by job, {order}"):
        found[row["job"]].append(row)
    return found


def _history_faults(job: sqlite3.Row, lines: list[sqlite3.Row]) -> Iterator[str]:
    state = ""
    for line in lines:
        if (line["from_state"] or "") != state:
            yield f"its history goes on from {line['from_state']}, it stood at {state}"
        sources, _, targets = _MOVES[line["verb"]].partition(">")
        if state not in sources.split() + ([""] if line["verb"] == "submit" else []):
            yield f"{line['verb']} from {state}"
        state = line["to_state"]
        if state not in targets.split():
            yield f"{line['verb']} to {state}"
    if not lines or lines[0]["seq"] != job["born"]:
        yield "its birth is not where its row says"
    if state != job["state"]:
        yield f"its history ends at {state}, its row says {job['state']}"
    if (job["finished_at"] is not None) != (state in FINAL):
        yield "its row and the time of its end disagree"


def _attempt_faults(job: sqlite3.Row, attempts: list[sqlite3.Row], lines: list[sqlite3.Row]) -> Iterator[str]:
    claims = [line["number"] for line in lines if line["verb"] == "claim"]
    numbers = [attempt["number"] for attempt in attempts]
    if not claims == numbers == list(range(1, job["number"] + 1)):
        yield f"{job['number']} attempts by its row, {numbers} by theirs, {claims} by its history"
    still_open = [attempt["id"] for attempt in attempts if attempt["ended_at"] is None]
    if still_open != ([job["attempt"]] if job["state"] == "RUNNING" else []):
        yield f"open attempts {still_open} while it is {job['state']}"


def _ask_counters(connection: sqlite3.Connection, jobs: Mapping[int, sqlite3.Row]) -> None:
    counted = Counter(job["queue"] for job in jobs.values() if job["state"] not in FINAL)
    for queue in connection.execute("select name, unfinished from queue").fetchall():
        if queue["unfinished"] != counted[queue["name"]]:
            raise Wrong("half", f"queue {tuple(queue)}: it counts {queue['unfinished']}, {counted[queue['name']]} are")


def _ask_dependencies(connection: sqlite3.Connection, jobs: Mapping[int, sqlite3.Row]) -> None:
    missing: Counter[int] = Counter()
    for row in connection.execute("select job, needs from dependency where not waived"):
        missing[row["job"]] += jobs[row["needs"]]["state"] != "COMPLETED"
    for seq, job in jobs.items():
        if job["unmet"] != missing[seq]:
            raise Wrong("half", f"job {job['id']}: {job['unmet']} dependencies by its row, {missing[seq]} are missing")


def digest(connection: sqlite3.Connection) -> str:
    """The same for two ledgers exactly if every row of every table is the same."""
    found = hashlib.sha256()
    for name, sql in sorted(connection.execute("select name, sql from sqlite_schema where type = 'table'").fetchall()):
        found.update(f"{name}\0{sql}\0".encode())
        for row in sorted(map(repr, connection.execute(f"select * from {name}"))):
            found.update(row.encode())
    return found.hexdigest()
