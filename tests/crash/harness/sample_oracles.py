"""What the crash tests ask about the sample application: its requests, its results in two stores, its journals."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from harness import sample_app, stores
from harness.journal import Journal
from harness.ledger_file import Row, Rows
from harness.moves import FINAL
from harness.oracles import require, was_in_doubt
from harness.plan import Request
from harness.sample_app import PUBLISHING


def accepted_is_found(rows: Rows, requests: Iterable[Request], receipts: Iterable[dict[str, object]]) -> None:
    """O1: every receipt has its job, exactly as it was asked for; and nothing is there that nobody asked for."""
    asked = {request.job_id: request for request in requests}
    found = {job["id"]: job for job in rows.job}
    for line in receipts:
        require(line["job"] in found, "a job with a durable receipt is never lost", line)
    for id, job in found.items():
        require(id in asked, "a job that nobody submitted", id)
        request = asked[id]
        expected = (request.kind, request.key, request.priority, request.task.number)
        kept = (job["kind"], job["key"], job["priority"], json.loads(job["input"])["number"])
        require(kept == expected, "a job is kept as it was asked for", kept, expected)


def every_job_ended(rows: Rows, requests: Iterable[Request]) -> None:
    """O9: after the faults stopped, everything that was asked for came to an end."""
    states = {job["id"]: (job["state"], job["reason"], job["diagnostic"]) for job in rows.job}
    for request in requests:
        require(request.job_id in states, "everything planned was submitted in the end", request)
        require(states[request.job_id][0] in FINAL, "every job ends", request, states[request.job_id])


def published_once(rows: Rows, root: Path) -> None:
    """O4, P3: a completed job of a publishing kind has exactly one result, with its content; any other job has none."""
    units = Counter(unit.job for unit in stores.published(root))
    contents = {unit.id: unit for unit in stores.published(root)}
    for job in rows.job:
        promised = job["kind"] in PUBLISHING and job["state"] == "COMPLETED"
        require(units.pop(job["id"], 0) == promised, "published exactly once, and only if completed", _short(job))
        if promised:
            unit = contents.get(json.loads(job["publications"])["unit"])
            require(unit is not None and unit.job == job["id"], "published under the id fixed at submit", _short(job))
            _content_is_right(job, unit.content if unit else "")
        elif job["state"] == "COMPLETED":
            expected = {"doubled": 2 * json.loads(job["input"])["number"]}
            require(json.loads(job["result"]) == expected, "the result is kept", _short(job), job["result"])
    require(not units, "a result of no job", units)


def _content_is_right(job: Row, content: str) -> None:
    number, found = json.loads(job["input"])["number"], json.loads(content)
    kept = (found["number"], found["text"])
    require(kept == (number, f"result {number}"), "the published content is right", _short(job), kept)
    require(json.loads(job["result"]) == {"published": found["id"]}, "the result names it", _short(job), job["result"])


def executed_once(rows: Rows, executed: Journal) -> None:
    """Each attempt was called at most once, under a row of its own, never after its result stood already."""
    jobs = {job["id"]: job for job in rows.job}
    numbers = {id: {attempt["number"] for attempt in rows.of("attempt", job)} for id, job in jobs.items()}
    begun: set[tuple[str, int]] = set()
    for line in executed.read():
        place = (line["job"], line["attempt"])
        require(line["attempt"] in numbers[line["job"]], "an attempt is counted before it runs", line)
        if line["what"] == "begin":
            require(place not in begun, "an attempt is called once", line)
            require(not line["already"], "what is published is not run again", line)
            begun.add(place)
        else:
            last = line["attempt"] + was_in_doubt(rows, jobs[line["job"]], line["attempt"])
            require(max(numbers[line["job"]]) == last, "no new attempt once it is published", line)


def walks_go_on(walked: Journal) -> None:
    """E-C4: each attempt begins at the last state that was saved, or at the one whose save was under way; whole."""
    saved: Counter[str] = Counter()
    for line in walked.read():
        require(line["what"] == "saved" or line["right"], "a state is one that was saved, whole", line)
        if line["what"] == "saved":
            saved[line["job"]] = line["at"]
        else:
            known = saved[line["job"]]
            require(line["at"] in (known, known + 1), f"the job goes on from {known}", line)
            saved[line["job"]] = line["at"]


def no_checkpoint_is_left(root: Path, rows: Rows) -> None:
    """Nothing is kept of a completed job's checkpoints, in the ledger and beside it."""
    completed = {job["id"] for job in rows.job if job["state"] == "COMPLETED"}
    left = [path.name for path in (root / ".perenne" / "checkpoints").iterdir()]
    require(
        not [name for name in left if name.partition(".")[0] in completed], "no checkpoint of a completed job", left
    )
    ids = {job["seq"]: job["id"] for job in rows.job}
    require(not [row for row in rows.checkpoint if ids[row["job"]] in completed], "no row of one", completed)


def artefacts_are_whole(root: Path, rows: Rows) -> None:
    """A completed job keeps each of its files, whole, under its digest; no bytes lie there that no job names."""
    folder = root / ".perenne" / "artefacts"
    found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for digest, content in found.items():
        require(hashlib.sha256(content).hexdigest() == digest, "bytes lie under their digest", digest)
    require(found.keys() == {row["digest"] for row in rows.artefact}, "no bytes without a name", rows.artefact)
    keepers = [job for job in rows.job if job["kind"].endswith("keep") and job["state"] == "COMPLETED"]
    for job in keepers:
        number = json.loads(job["input"])["number"]
        named = {row["name"]: found.get(row["digest"]) for row in rows.of("artefact", job)}
        require(named == sample_app.kept_of(number), "a job keeps its files", job["id"], sorted(named))


def steering_is_kept(rows: Rows, steered: Journal) -> None:
    """A cancel that was granted ends the job, unless its publication had become a fact."""
    jobs = {job["id"]: job for job in rows.job}
    for line in steered.read():
        if line["verb"] == "cancel":
            job = jobs[line["job"]]
            allowed = {"CANCELLED", "COMPLETED"} if job["kind"] in PUBLISHING else {"CANCELLED"}
            require(job["state"] in allowed, "a cancel that was granted stands", line, _short(job))
            require(line["state"] != "CANCELLED" or job["state"] == "CANCELLED", "a cancelled job stays", _short(job))


def _short(job: Row) -> dict[str, object]:
    return {name: job[name] for name in ("id", "kind", "state", "reason", "number", "diagnostic")}


def stores_are_clean(root: Path) -> None:
    """E-P2: what a dead attempt left between nothing and a result never accumulates."""
    require(not (left := stores.leftovers(root)), "no leftover of a publication", left)
