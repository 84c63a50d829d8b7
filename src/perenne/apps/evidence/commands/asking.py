"""`enqueue` and `submit`: evidence becomes jobs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import click

from perenne import Engine
from perenne.apps.evidence import app, catalogue, jobs, originals, places, requests, rows
from perenne.apps.evidence.commands import opening
from perenne.apps.evidence.commands.exporting import Exporter, all_jobs, evidence_of
from perenne.apps.evidence.commands.names import WORDS
from perenne.apps.evidence.commands.screen import screen
from perenne.apps.evidence.identities import check_uuid
from perenne.apps.evidence.images.specimen import specimen_picture
from perenne.apps.evidence.mail_headers.specimen import specimen_mail
from perenne.apps.evidence.requests import Request
from perenne.errors import QueueFull


@click.command(short_help="Submit an analysis for all that has none.")
@opening.in_workspace
def enqueue(workspace: Path) -> None:
    """Submit one analysis for each piece of evidence that has none yet.

    In a specimen these are first the two fixed jobs: the mail, and the picture that waits for it.

    Example: perenne evidence enqueue --workspace ~/case-7
    """
    with opening.opened(workspace, "write") as engine:
        wanted = wanted_requests(engine)
        _submit_all(engine, wanted)
    click.echo(f"{screen().count(len(wanted), 'job')} enqueued" if wanted else "nothing to enqueue")


@click.command(short_help="Submit one analysis of one piece of evidence.")
@opening.in_workspace
@click.option("--evidence", "evidence_id", required=True, metavar="UUID", help="The piece of evidence, by its id.")
@click.option("--capability", required=True, metavar="NAME", help=f"{' or '.join(WORDS)}.")
@click.option("--key", metavar="UUID", help="The same key again is the same job; a new one when left out.")
def submit(workspace: Path, evidence_id: str, capability: str, key: str | None) -> None:
    """Submit one analysis of one piece of evidence; prints the id of its job.

    Example: perenne evidence submit --evidence 82000000-0000-4000-8000-000000000001
    --capability labfy.capability.eml_headers.v1
    """
    app.kind(capability)
    check_uuid("evidence", evidence_id)
    check_uuid("key", key := key or str(uuid.uuid4()))
    with opening.opened(workspace, "write") as engine:
        request = requests.request_of(originals.find(workspace, evidence_id), capability, key)
        reused = jobs.submit(engine, request)
        Exporter(engine)()
    click.echo(f"{request.job_id}  {'reused' if reused else 'accepted'}")


def wanted_requests(engine: Engine) -> list[Request]:
    """What `enqueue` submits: a request for each original whose capability has no job yet, in the order of import.

    What was published by a job that is purged has its extraction, and is not asked for again.
    """
    with catalogue.reading(engine.workspace.root) as connection:
        found, published = rows.originals(connection), set(rows.extraction_ids(connection))
    asked = {(evidence_of(job), job.kind) for job in all_jobs(engine)}
    fixed = _of_specimen(found) if engine.workspace.specimen else []
    own = [request for one in found if (request := requests.own_request(one)) is not None]
    settled = {request.evidence_id for request in fixed}
    every = fixed + [request for request in own if request.evidence_id not in settled]
    return [
        request
        for request in every
        if (request.evidence_id, request.capability) not in asked and request.extraction_id not in published
    ]


def _of_specimen(found: Sequence[rows.Evidence]) -> list[Request]:
    by_content = {one.sha256: one for one in found}
    mail, picture = (by_content.get(places.sha256_of(bytes_)) for bytes_ in (specimen_mail(), specimen_picture()))
    return [] if mail is None or picture is None else requests.specimen_requests(mail, picture)


def _submit_all(engine: Engine, wanted: Sequence[Request]) -> None:
    done = 0
    try:
        for request in wanted:
            jobs.submit(engine, request)
            done += 1
            click.echo(f"{request.job_id}  {WORDS[request.capability]:<12}  evidence {request.evidence_id}")
    except QueueFull as error:
        outside = screen().count(len(wanted) - done, "piece of evidence waits", "pieces of evidence wait")
        raise QueueFull(f"{screen().count(done, 'job')} enqueued, {outside} outside: {error}") from error
    finally:
        if done:
            Exporter(engine)()
