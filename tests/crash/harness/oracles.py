"""The questions asked of every ledger that a crash left, from outside: its rows, its folder; the engine is not asked.

`ask_ledger` holds at every instant, whatever is alive; the others once every job had its time to end. What an
application published is asked in `sample_oracles` and `evidence_oracles`.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from pathlib import Path

from harness.journal import Journal
from harness.ledger_file import Row, Rows
from harness.moves import ENDINGS, FINAL, MOVES


class Violation(AssertionError):
    """A promise was broken; the sentence says which and where."""


def require(holds: object, promise: str, *where: object) -> None:
    if not holds:
        raise Violation(": ".join([promise, *map(str, where)]))


def ask_ledger(rows: Rows) -> None:
    """What no crash may break even for a moment."""
    counters_are_exact(rows)
    for job in rows.job:
        lines = rows.of("history", job)
        history_is_legal(job, lines)
        wishes_are_kept(job, lines)
        attempts_agree(job, rows.of("attempt", job), lines)
        dependencies_agree(rows, job)
    holds_stop_claims(rows)
    require(len({row["id"] for row in rows.attempt}) == len(rows.attempt), "an attempt id is used once")


def counters_are_exact(rows: Rows) -> None:
    """The bound of a queue counts what is there."""
    unfinished = Counter(job["queue"] for job in rows.job if job["state"] not in FINAL)
    for queue in rows.queue:
        name = queue["name"]
        require(queue["unfinished"] == unfinished[name], "a queue counts its jobs", queue, unfinished[name])


def history_is_legal(job: Row, lines: list[Row]) -> None:
    """O2, P9: from its birth to where it stands now, by allowed moves only, each with reason, time and actor."""
    state = None
    for line in lines:
        where = (job["id"], dict(line))
        require(line["from_state"] == state, f"history goes on from {state}", *where)
        require((state, line["to_state"]) in MOVES.get(line["verb"], ()), "a move that is not allowed", *where)
        require(line["reason"] and line["actor"] and line["at"] > 0, "a move says why, who and when", *where)
        state = line["to_state"]
    require(state == job["state"], f"history ends at {state}, the job stands at {job['state']}", job["id"])
    require(
        (job["finished_at"] is not None) == (state in FINAL), "only an ended job has the time of its end", job["id"]
    )


def wishes_are_kept(job: Row, lines: list[Row]) -> None:
    """No claim after a cancel, unless a person starts the job again; none between a pause and its resume."""
    held: str | None = None
    for line in lines:
        verb = line["verb"].removeprefix("ask_")
        if verb in ("cancel", "requeue") or (verb in ("pause", "resume") and held != "cancel"):
            held = None if verb in ("resume", "requeue") else verb
        require(line["verb"] != "claim" or held is None, f"no claim while {held} is asked", job["id"], dict(line))


def attempts_agree(job: Row, attempts: list[Row], lines: list[Row]) -> None:
    """O3, O6: numbers grow by one, none is spent beyond the limit, and each ended as the history says."""
    numbers = sorted(attempt["number"] for attempt in attempts)
    require(numbers == list(range(1, job["number"] + 1)), "attempts are numbered 1, 2, 3", job["id"], numbers)
    claims = sum(line["verb"] == "claim" for line in lines)
    require(claims == len(numbers), "each claim is an attempt", job["id"], claims, numbers)
    before = max((line["number"] or 0 for line in lines if line["verb"] == "requeue"), default=0)
    outcomes = Counter(attempt["outcome"] for attempt in attempts if attempt["number"] > before)
    require(outcomes["failed"] == job["failures"], "failures are counted", job["id"], job["failures"], outcomes)
    kept = outcomes["interrupted"]
    require(kept == job["interruptions"], "interruptions are counted", job["id"], job["interruptions"], outcomes)
    open_ones = [attempt["id"] for attempt in attempts if attempt["ended_at"] is None]
    expected = [job["attempt"]] if job["state"] == "RUNNING" else []
    require(open_ones == expected, "only a running job has an open attempt", job["id"], open_ones, expected)
    _endings_agree(job, attempts, lines)
    _spending_agrees(job, attempts, lines)


def _spending_agrees(job: Row, attempts: list[Row], lines: list[Row]) -> None:
    """E-F1: counted at the claim, given back by few; a person who lets a job go on grants it one attempt more."""
    given_back = {attempt["number"] for attempt in attempts if attempt["ended_at"] and not attempt["spent"]}
    limit, spent = job["max_attempts"], 0
    for line in lines:
        if line["verb"] == "claim":
            spent += 1
        elif line["from_state"] == "RUNNING" and line["verb"] in ENDINGS and line["number"] in given_back:
            spent -= 1
        elif line["verb"] == "requeue":
            spent = 0
        elif line["verb"] in ("resume", "release", "resolve") and line["to_state"] not in FINAL:
            spent = min(spent, limit - 1)
        require(spent <= limit, "attempts are bounded", job["id"], spent, dict(line))
    require(job["spent"] == spent, "what is spent is counted", job["id"], job["spent"], spent)


def _endings_agree(job: Row, attempts: list[Row], lines: list[Row]) -> None:
    endings = [line for line in lines if line["from_state"] == "RUNNING" and line["verb"] in ENDINGS]
    ended = [attempt for attempt in sorted(attempts, key=lambda row: row["number"]) if attempt["ended_at"] is not None]
    require(len(endings) == len(ended), "each end of an attempt is in the history once", job["id"], ended)
    for line, attempt in zip(endings, ended, strict=True):
        kept = (attempt["outcome"], attempt["spent"])
        require(kept in ENDINGS[line["verb"]], f"an attempt ended by {line['verb']}", job["id"], kept)
        require(line["number"] == attempt["number"], "the history names the attempt", job["id"], dict(line))


def dependencies_agree(rows: Rows, job: Row) -> None:
    """The count of what is missing is what is missing; nothing starts before it is there."""
    jobs = rows.jobs()
    needs = [row for row in rows.dependency if row["job"] == job["seq"] and not row["waived"]]
    missing = [row for row in needs if jobs[row["needs"]]["state"] != "COMPLETED"]
    require(job["unmet"] == len(missing), "unmet dependencies are counted", job["id"], job["unmet"], len(missing))
    started = job["number"] > 0
    require(not (started and missing), "no job starts before what it needs is done", job["id"])
    if job["state"] == "BLOCKED" and not missing:
        raise Violation(f"a job whose dependencies are done is released with the last of them: {job['id']}")


def holds_stop_claims(rows: Rows) -> None:
    """No claim between the pause of a queue or of the workspace and its resume."""
    queue_of = {job["seq"]: f"queue:{job['queue']}" for job in rows.job}
    held: set[str] = set()
    for line in rows.history:
        if line["job"] is None:
            (held.add if line["verb"] in ("pause", "stop") else held.discard)(line["subject"])
        elif line["verb"] == "claim":
            closed = held & {"workspace", queue_of[line["job"]]}
            require(not closed, "no claim while its lane is paused", dict(line), closed)


def published_is_recovered(rows: Rows, died: dict[str, int]) -> None:
    """P3: what was published when its worker died is completed by recovery, whatever was asked, in the same attempt.

    Where nobody could look, a person lets the job go on; then it is found before that attempt runs.
    """
    for job in rows.job:
        if job["id"] in died:
            doubts = was_in_doubt(rows, job, died[job["id"]])
            # Or by the dead worker itself: what it had synced is seen once SQLite looks through the WAL again.
            right = {"published_before_start"} if doubts else {"recovered_after_publish", "published"}
            kept = (job["state"], job["reason"] in right, job["number"])
            wanted = ("COMPLETED", True, died[job["id"]] + doubts)
            require(kept == wanted, "a published result is found by recovery", job["id"], job["reason"], kept, wanted)


def was_in_doubt(rows: Rows, job: Row, number: int) -> bool:
    """Whether this attempt ended in doubt, and a person then let the job go on."""
    said = [(line["verb"], line["number"]) for line in rows.of("history", job)]
    return ("doubt", number) in said and "resolve" in [verb for verb, _ in said[said.index(("doubt", number)) :]]


def ends_are_told(rows: Rows, told: Journal, delivered: Journal) -> None:
    """E-S4: in process at most once an end; durably exactly once an end, under an id of its own."""
    ends = Counter((_id(rows, line), line["to_state"]) for line in rows.history if _ends(line))
    heard = Counter((line["job"], line["state"]) for line in told.read())
    require(heard <= ends, "an end is told in process at most once", heard - ends)
    notices = {line["id"]: (line["job"], line["state"]) for line in delivered.read()}
    kept = Counter(notices.values())
    require(kept == ends, "each end leaves one durable notice", ends - kept, kept - ends)
    require(not rows.notice, "an acknowledged notice is gone", len(rows.notice))


def _ends(line: Row) -> bool:
    return line["job"] is not None and line["to_state"] in FINAL


def _id(rows: Rows, line: Row) -> str:
    return str(rows.jobs()[line["job"]]["id"])


def nothing_is_left(rows: Rows, root: Path, own: Path) -> None:
    """O11: no stage file, pipe, lock holder or unfinished owner; attempts leave no private folder."""
    for name in ("owners", "children", "wake", "stage"):
        left = sorted(os.listdir(own / name))
        require(not left, f"nothing is left in {name}", left)
    staged = [path for path in root.rglob("*stage*") if path.is_file()]
    require(not staged, "no stage file is left", staged)
    held = [path.name for path in own.rglob("*.lock") if not _is_free(path)]
    require(not held, "every lock is free", held)
    require(all(owner["left_at"] for owner in rows.owner), "every owner has left", rows.owner)


def _is_free(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
