"""What the analyses of a workspace found, as a table, and whether anything is left that should not be.

It reads the catalogue of the investigation, the artefacts and the folders; nothing is written.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from perenne.apps.evidence import catalogue, rows
from perenne.apps.evidence.places import DERIVATIVES, RUNTIME
from perenne.surfaces import views

Job = dict[str, Any]

MAIL_WORDS = {"email_address": "addr", "domain_name": "dom", "ip_address": "IP"}
CREATOR_TAGS = {"Artist", "Author", "By-line", "Creator"}


def table(case: Path, jobs: list[Job]) -> list[str]:
    """One line for each job, in 80 columns, and one with the totals."""
    with catalogue.reading(case) as connection:
        types = {one.id: one.type for one in rows.originals(connection)}
        by_source = {one.source_id: one for one in _extractions(connection)}
        cells = []
        for job in jobs:
            extraction = by_source.get(job["evidence_id"])
            seen = rows.observations(connection, extraction.id) if extraction else []
            kind = types[job["evidence_id"]]
            found = _in_mail(seen) if kind == "email" else _in_picture(case, extraction)
            cells.append((job["file"], kind, found, len(seen), job["attempt_count"], job["state"]))
    head = ("file", "type", "found", "seen", "tries", "state")
    lines = views.table(head, [[str(cell) for cell in row] for row in cells], flexible=2)
    seen_in_all, tries = sum(row[3] for row in cells), sum(row[4] for row in cells)
    totals = [views.count(len(cells), "file"), views.count(seen_in_all, "observation"), f"{tries} attempts"]
    return [*lines, " · ".join([*totals, views.states(Counter(job["state"] for job in jobs))])]


def faults(case: Path, jobs: list[Job]) -> list[str]:
    """One sentence for everything that was lost, done twice or left over."""
    done = sorted(job["evidence_id"] for job in jobs if job["state"] == "COMPLETED")
    with catalogue.reading(case) as connection:
        sources = sorted(one.source_id for one in _extractions(connection))
        derived = {rows.evidence(connection, one.evidence_id or "") for one in _extractions(connection)}
    named = {case / one.relative_path for one in derived if one}
    stray = [path for path in _files(case / DERIVATIVES) if path not in named]
    stray += [*case.rglob("*.stage*"), *_files(case / RUNTIME / "stage")]
    ended_badly = [job for job in jobs if job["state"] not in ("COMPLETED", "BLOCKED")]
    return [
        *([f"{len(done)} jobs are done, but there are {len(sources)} extractions"] if sources != done else []),
        *(f"{job['file']} is {job['state']}: {job['diagnostic']}" for job in ended_badly),
        *(f"{path} was left over" for path in stray),
    ]


def _in_mail(seen: list[rows.Recorded]) -> str:
    values = {(one.observation.type, one.observation.value_normalized) for one in seen}
    counted = Counter(MAIL_WORDS.get(kind, kind) for kind, _ in values)
    return ", ".join(f"{counted[word]} {word}" for word in MAIL_WORDS.values() if counted[word]) or "nothing"


def _in_picture(case: Path, extraction: rows.Extraction | None) -> str:
    if extraction is None:
        return ""
    artefact = next((case / DERIVATIVES).rglob(f"{extraction.evidence_id}.json"))
    tags = json.loads(artefact.read_bytes())["metadata"]
    camera = [tag["value"] for tag in tags if tag["code"] in ("image.make", "image.model")]
    creator = [tag["value"] for tag in tags if tag["tag"] in CREATOR_TAGS or tag["tag"].startswith("Author-")]
    place = ["GPS"] if any(tag["sensitive"] for tag in tags) else []
    known = [*([" ".join(camera)] if camera else []), *(f"by {name}" for name in creator), *place]
    return ", ".join(known) or views.count(len(tags), "tag")


def _extractions(connection: Any) -> list[rows.Extraction]:
    found = (rows.extraction(connection, id) for id in rows.extraction_ids(connection))
    return [one for one in found if one is not None]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
