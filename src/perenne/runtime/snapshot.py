"""`perenne-snapshot.json`, contract `perenne.jobs.snapshot.v1`: the document, its bounds, and its strict reader.

What does not live here: when it is written and by whom (`snapshot_keeper`), and where its values come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from perenne.core import limits
from perenne.core.job import Queue
from perenne.core.states import FINAL, JobState
from perenne.errors import InvalidInput
from perenne.files import regular
from perenne.files.workspace import Workspace
from perenne.store.overview import FINISHED, UNFINISHED, JobLine, Name, Number, Overview, Truncated, Uuid, WorkerLine

CONTRACT: Literal["perenne.jobs.snapshot.v1"] = "perenne.jobs.snapshot.v1"
NAME = "perenne-snapshot.json"
MOST_BYTES = 4 << 20
_MOST_WORKERS = 1_000
_MOST_QUEUES = 1_000


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One consistent view of a whole workspace; the later of two has the higher pair of epoch and revision.

    It holds nothing but what the ledger says, so the same state makes the same bytes. changed_at: when the newest line
    of the history was written, in UTC microseconds, as all instants. truncated: how many jobs are not in `jobs`.
    """

    contract: Literal["perenne.jobs.snapshot.v1"]
    workspace: Uuid
    epoch: Annotated[int, Meta(ge=1)]
    revision: Number
    changed_at: Number
    name: Name
    app: Name
    specimen: bool
    paused: bool
    stopped: bool
    counts: dict[JobState, Number]
    queues: Annotated[list[Queue], Meta(max_length=_MOST_QUEUES)]
    workers: Annotated[list[WorkerLine], Meta(max_length=_MOST_WORKERS)]
    jobs: Annotated[list[JobLine], Meta(max_length=UNFINISHED + FINISHED)]
    truncated: Truncated


class Head(msgspec.Struct, frozen=True):
    """What tells which of two snapshots of a workspace is the later one."""

    workspace: str
    epoch: int
    revision: int


def compose(workspace: Workspace, view: Overview) -> Snapshot:
    """The document of one view."""
    fields = {name: getattr(view, name) for name in Overview.__struct_fields__}
    fields |= {"queues": view.queues[:_MOST_QUEUES], "workers": view.workers[:_MOST_WORKERS]}
    return Snapshot(
        contract=CONTRACT,
        workspace=workspace.id,
        name=workspace.name,
        app=workspace.app,
        specimen=workspace.specimen,
        **fields,
    )


def encode(document: Snapshot) -> bytes:
    """The bytes of the file; what does not fit into 4 MiB is left out, finished jobs first, and counted."""
    encoded = _encoder.encode(document) + b"\n"
    while len(encoded) > MOST_BYTES:
        kept = document.jobs[: len(document.jobs) * MOST_BYTES * 9 // (len(encoded) * 10)]
        gone = document.jobs[len(kept) :]
        finished = sum(job.state in FINAL for job in gone)
        left = Truncated(document.truncated.unfinished + len(gone) - finished, document.truncated.finished + finished)
        document = msgspec.structs.replace(document, jobs=kept, truncated=left)
        encoded = _encoder.encode(document) + b"\n"
    return encoded


def decode(data: bytes) -> Snapshot:
    """The document, every field and bound of it checked, and that it agrees with itself.

    Raises: InvalidInput: names the field. TooLarge.
    """
    limits.check_size("snapshot", len(data), MOST_BYTES, "let the workspace write it anew")
    try:
        document = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(str(error)) from None
    if len({job.id for job in document.jobs}) != len(document.jobs):
        raise _refused("a job stands in it twice")
    final = sum(number for state, number in document.counts.items() if state in FINAL)
    ended = sum(job.state in FINAL for job in document.jobs)
    left = document.truncated
    if (left.finished, left.unfinished) != (
        final - ended,
        sum(document.counts.values()) - final - (len(document.jobs) - ended),
    ):
        raise _refused("jobs, counts and truncated do not agree")
    return document


def read(root: Path) -> Snapshot:
    """The snapshot of the workspace in this folder; opens no database.

    Raises: InvalidInput: missing, or not what the contract says. TooLarge.
    """
    return decode(regular.read(root / NAME, limit_bytes=MOST_BYTES))


def schema() -> dict[str, Any]:
    """The contract as a JSON Schema."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": CONTRACT, **msgspec.json.schema(Snapshot)}


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"snapshot: {why}; let the workspace write it anew", field="snapshot")


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Snapshot, strict=True)
