"""Asks a kind what stands in the other store, and has its leftovers adopted or removed.

The one place where an answer of an application about its publication enters the engine. Nothing is decided here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from perenne.core.job import Job
from perenne.core.kind import Kind
from perenne.core.publication import Publication, Published
from perenne.runtime.saying import said

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDS = msgspec.json.Decoder(dict[str, str])


def identity_of(job: Job, kind: Kind, root: Path) -> Publication:
    """The identity that was fixed at submit."""
    return Publication(
        job_id=job.id,
        ids=_IDS.decode(job.publications),
        requested_at=stamp(job.requested_at),
        input=kind.read_input(job.input),
        workspace=root,
    )


def stamp(at: int) -> str:
    """UTC microseconds as `YYYY-MM-DDTHH:MM:SSZ`."""
    return (_EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ")


def look(kind: Kind, publication: Publication) -> Published:
    """What is published, its result encoded; a lookup that fails cannot tell."""
    if kind.lookup is None:
        return Published.absent()
    try:
        found = kind.lookup(publication)
        result = None if found.result is None else msgspec.json.encode(found.result)
        return msgspec.structs.replace(found, result=result)
    except Exception as error:
        return Published("unknown", f"the lookup of {kind} failed: {said(error)}")


def clean(kind: Kind, publication: Publication) -> Published:
    """Adopt what a dead or failed attempt left, if the kind can and it verifies; else remove it.

    Called only when the lookup answered absent; answers what is published afterwards.
    """
    try:
        if kind.adopt is not None and kind.adopt(publication):
            return look(kind, publication)
        if kind.discard is not None:
            kind.discard(publication)
    except Exception as error:
        return Published("unknown", f"the leftovers of {kind} could not be dealt with: {said(error)}")
    return Published.absent()
