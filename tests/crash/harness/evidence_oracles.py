"""What the crash tests ask about an investigation: plain SQL on its catalogue, its files re-hashed, its snapshot."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from harness.journal import Journal
from harness.ledger_file import Rows
from harness.oracles import require

ORIGINALS, DERIVATIVES = "01_Preuves_Originales", "02_Preuves_Traitees"
MAIL, PICTURE = "labfy.capability.eml_headers.v1", "labfy.capability.exif_metadata.v1"
WHOLE_MAIL = "evidence.mail"


def asked(root: Path, query: str) -> list[tuple[Any, ...]]:
    """The answer of a copy of the catalogue: a journal that a dead writer left is rolled back there, and only there."""
    with tempfile.TemporaryDirectory() as folder:
        for file in root.glob("Enquete.sqlite*"):
            shutil.copy(file, folder)
        with closing(apsw.Connection(str(Path(folder, "Enquete.sqlite")))) as connection:
            return connection.execute(query).fetchall()


def accepted_is_found(rows: Rows, accepted: Journal) -> None:
    """O1: every receipt has its job."""
    found = {job["id"] for job in rows.job}
    for line in accepted.read():
        require(line["job"] in found, "a job with a durable receipt is never lost", line)


def every_original_is_analysed(rows: Rows, root: Path, with_picture: bool) -> None:
    """O9: each mail, and each picture that was asked about, has exactly one job, and it is completed."""
    jobs = Counter(
        (json.loads(job["input"])["evidence_id"], job["kind"], job["state"])
        for job in rows.job
        if job["kind"] != WHOLE_MAIL
    )
    originals = asked(root, f"select id, mime_type from preuves where relative_path like '{ORIGINALS}/%'")
    kinds = {id: PICTURE if str(mime).startswith("image/") else MAIL for id, mime in originals}
    wanted = Counter((id, kind, "COMPLETED") for id, kind in kinds.items() if with_picture or kind == MAIL)
    require(wanted, "the catalogue holds originals")
    require(jobs == wanted, "each original is analysed once", jobs - wanted, wanted - jobs)


def nested_messages_are_analysed_once(rows: Rows, root: Path, digests: Sequence[str]) -> None:
    """A mail and every message nested in it have one job each, and one artefact that tells of their very bytes."""
    whole = [job for job in rows.job if job["kind"] == WHOLE_MAIL]
    require(all(job["state"] == "COMPLETED" for job in whole), "each analysis of a whole mail is completed", whole)
    told = []
    for job in whole:
        derivative = json.loads(job["publications"])["derivative"]
        artefact = json.loads((root / DERIVATIVES / "Extractions" / "EML" / f"{derivative}.json").read_bytes())
        told.append(artefact["analysis"]["source"]["sha256"])
    require(sorted(told) == sorted(digests), "each message is analysed once, by its own bytes", told)


def originals_stand_once(root: Path, contents: list[bytes]) -> None:
    """Each imported content is one row and one file, equal to what was imported; and no other file is there."""
    rows = asked(root, f"select relative_path, sha256 from preuves where relative_path like '{ORIGINALS}/%'")
    files = {str(path.relative_to(root)): _sha256(path) for path in (root / ORIGINALS).rglob("*") if path.is_file()}
    require(dict(rows) == files, "originals are rows and files", dict(rows), files)
    digests = Counter(files.values())
    for content in contents:
        require(digests[hashlib.sha256(content).hexdigest()] == 1, "each content is imported once", digests)


def published_once(rows: Rows, root: Path) -> None:
    """O4: one extraction, one derivative and its file for each completed job, under the ids fixed at submit."""
    ids = [json.loads(job["publications"]) for job in rows.job if job["state"] == "COMPLETED"]
    wanted = sorted((one["extraction"], one["derivative"]) for one in ids)
    found = sorted(asked(root, "select id, evidence_id from extractions"))
    require(found == wanted, "exactly one extraction for each completed job", found, wanted)
    derivatives = dict(
        asked(root, f"select relative_path, sha256 from preuves where relative_path like '{DERIVATIVES}/%'")
    )
    files = {str(path.relative_to(root)): _sha256(path) for path in (root / DERIVATIVES).rglob("*") if path.is_file()}
    require(derivatives == files, "derivatives are rows and files", derivatives, files)
    require(len(files) == len(wanted), "one artefact for each completed job", sorted(files))
    _observations_are_proposals(root, {extraction for extraction, _ in wanted})


def published_jobs(rows: Rows, root: Path) -> set[str]:
    """Ids of the jobs whose extraction stands."""
    extractions = {row[0] for row in asked(root, "select id from extractions")}
    return {job["id"] for job in rows.job if json.loads(job["publications"])["extraction"] in extractions}


def _observations_are_proposals(root: Path, extractions: set[str]) -> None:
    found = Counter(row[0] for row in asked(root, "select extraction_id from evidence_entity_observations"))
    require(set(found) <= extractions, "every observation belongs to an extraction", found)
    twice = asked(root, "select verification_status from evidence_entity_observations where promoted_at is not null")
    require(not twice, "nothing is promoted by a machine", twice)


def snapshot_agrees(rows: Rows, root: Path) -> None:
    """The last export says of every job what the ledger says."""
    snapshot = json.loads((root / "jobs-snapshot.json").read_bytes())
    said = {job["job_id"]: job["state"] for job in snapshot["jobs"]}
    require(said == {job["id"]: job["state"] for job in rows.job}, "the snapshot is the last export", said)


def nothing_is_left(root: Path) -> None:
    """No stage file, no journal of SQLite, no damage in the catalogue."""
    left = [path.name for path in root.rglob("*") if ".stage" in path.name or path.name.endswith("-journal")]
    require(not left, "no leftover in the investigation", left)
    require(asked(root, "pragma integrity_check") == [("ok",)], "the catalogue is whole")
    require(not asked(root, "pragma foreign_key_check"), "the catalogue's references hold")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
