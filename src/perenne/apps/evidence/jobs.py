"""The kinds of EV-5, two of them of the reference contracts: handlers that call plain functions, how one submits.

Not here: what an analysis does (`mail_headers`, `mail`, `images`), how it is published (`publication`), the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perenne import Context, Engine, Kind, Publication, Published, Snooze, errors
from perenne.apps.evidence.findings import Derivative, Source
from perenne.apps.evidence.identities import Identity, derive
from perenne.apps.evidence.requests import (
    MAIL_HEADERS,
    PICTURE_METADATA,
    WHOLE_MAIL,
    Input,
    MailInput,
    PictureInput,
    Request,
    WholeMailInput,
)
from perenne.crashpoints import crash_point

if TYPE_CHECKING:
    from perenne.apps.evidence.images.exiftool import Availability
    from perenne.apps.evidence.whole_mail import Nested
    from perenne.tools import Confined

PUBLICATIONS = ("extraction", "derivative")
ACTIVE_LIMIT_S = 30.0
_ROOM_AGAIN_S = 1.0

# Neither a wrong or altered original nor a picture that keeps ExifTool busy gets better by running again.
_HOPELESS = (errors.UsageError, errors.DoubtError, errors.ToolTimedOut)

_available: list[Availability] = []  # the first ExifTool that answered in this process


def analyse_mail(context: Context, given: MailInput) -> None:
    """Read the header of a mail and publish its observations."""
    from perenne.apps.evidence import originals
    from perenne.apps.evidence.mail_headers import analyser, artefact

    _, content = originals.read(context.workspace, given.evidence_id)
    context.boundary()
    found = analyser.analyse(content)
    context.publish(partial(_publish, build=partial(artefact.build, observations=found)))


def analyse_picture(context: Context, given: PictureInput) -> None:
    """Ask ExifTool about a private copy of a picture and publish its answer."""
    from perenne.apps.evidence import originals
    from perenne.apps.evidence.images import artefact, exiftool

    relative_path = originals.find(context.workspace, given.evidence_id).relative_path
    source, stage = _source_of(given), context.stage
    try:
        reading = exiftool.read(context.workspace, relative_path, source, probed(), stage=stage, stop=context.stop)
        # The artefact's contract has no place for it, so the job's log keeps how the tool was confined.
        context.log("tool_ran", tool=f"exiftool@{reading.tool_version}", **_provenance(reading.confined))
        context.publish(partial(_publish, build=partial(artefact.build, reading=reading)))
    except errors.ToolError:
        _available.clear()  # it may be gone, or another version by now: the next attempt asks again
        raise


def analyse_whole_mail(context: Context, given: WholeMailInput) -> Snooze | None:
    """Read a message, give those nested in it their jobs, publish what it says.

    The children come before the publication: once that stands, the job is not run again.
    """
    from perenne.apps.evidence import originals, whole_mail

    _, content = originals.read(context.workspace, given.evidence_id)
    context.boundary()
    analysis = whole_mail.read(content, given)
    crash_point("mail.parsed")
    build = partial(whole_mail.build, steps=given.steps, analysis=analysis)
    request_id = _identity_of(context.publication).extraction_id
    nested = whole_mail.nested_in(analysis, request_id, len(given.steps))
    crash_point("mail.built")
    try:
        for one in nested:
            _submit_nested(context, given, one)
    except errors.QueueFull:
        return Snooze(_ROOM_AGAIN_S, "the queue is full; its nested messages wait for room")
    crash_point("mail.children_submitted")
    context.publish(partial(_publish, build=build))
    return None


def submit(engine: Engine, request: Request) -> bool:
    """Hand a request to the engine; true when the same request had made its job before.

    Raises: QueueFull, DuplicateJob: the key has other content, or an analysis of this evidence is not finished.
    """
    receipt = engine.submit(
        request.capability,
        request.input,
        job_id=request.job_id,
        key=request.job_id,
        unique_key=request.unique_key,
        depends_on=request.depends_on,
        ids=dict(zip(PUBLICATIONS, (request.extraction_id, request.derivative_id), strict=True)),
        requested_at=None if request.requested_at is None else _microseconds(request.requested_at),
    )
    return receipt.reused


def look_for_mail(publication: Publication) -> Published:
    """Whether this mail analysis stands, every part of it verified."""
    from perenne.apps.evidence.mail_headers import analyser, artefact

    return _look(publication, analyser.ANALYSER_ID, artefact.check)


def look_for_picture(publication: Publication) -> Published:
    """Whether this picture analysis stands, every part of it verified; needs no ExifTool."""
    from perenne.apps.evidence.images import artefact

    return _look(publication, "exiftool", artefact.check)


def look_for_whole_mail(publication: Publication) -> Published:
    """Whether this analysis stands, every part of it verified."""
    from perenne.apps.evidence import whole_mail

    return _look(publication, whole_mail.TOOL, partial(whole_mail.check, steps=publication.input.steps))


def remove_leftovers(publication: Publication) -> None:
    """Remove the files of a dead attempt that no row names."""
    from perenne.apps.evidence.publication import discard

    discard(publication.workspace, _identity_of(publication))


def probed() -> Availability:
    """Whether ExifTool is here; once it answered, it is not asked again in this process (T-33)."""
    from perenne.apps.evidence.images import exiftool

    if _available:
        return _available[0]
    found = exiftool.probe(Path("/"))  # nothing is written there, and no user's configuration lies there
    if found.state == "available":
        _available.append(found)
    return found


def missing_exiftool() -> str | None:
    """Why pictures cannot be analysed here and which command helps; None when they can."""
    found = probed()
    return None if found.state == "available" else f"pictures cannot be analysed here: {found.reason}"


def _provenance(confined: Confined) -> dict[str, str]:
    return {"confinement": confined.level, "confined_by": confined.by}


def _publish(publication: Publication, build: Callable[..., Derivative]) -> None:
    """Make what `build` gives visible in the catalogue, under the ids fixed at submit."""
    from perenne.apps.evidence import publication as publishing

    identity, source = _identity_of(publication), _source_of(publication.input)
    derivative = build(request_id=identity.extraction_id, source=source, requested_at=identity.requested_at)
    publishing.publish(publication.workspace, identity, source, derivative)


def _look(publication: Publication, tool_id: str, check: Callable[..., Any]) -> Published:
    """Whether the analysis of this tool stands; `check` as `artefact.check`."""
    from perenne.apps.evidence.lookup import lookup

    identity, source = _identity_of(publication), _source_of(publication.input)
    expected = partial(check, request_id=identity.extraction_id, source=source, requested_at=identity.requested_at)
    found = lookup(publication.workspace, identity, source.evidence_id, tool_id, expected)
    return Published(found.state, found.finding)


def _identity_of(publication: Publication) -> Identity:
    """Under which ids and instant a job publishes."""
    extraction_id, derivative_id = (publication.ids[name] for name in PUBLICATIONS)
    return Identity(extraction_id, derivative_id, publication.requested_at)


def _source_of(given: Input) -> Source:
    """The piece of evidence that a job reads."""
    return Source(given.evidence_id, given.source_sha256, given.source_size)


def _microseconds(instant: str) -> int:
    """The instant of an identity as the engine counts it."""
    return int(datetime.strptime(instant, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()) * 1_000_000


def _submit_nested(context: Context, given: WholeMailInput, nested: Nested) -> None:
    """Ask for the analysis of a nested message; its ids follow from those of this one, so twice is once."""
    steps = (*given.steps, nested.step)
    context.submit(
        WHOLE_MAIL,
        WholeMailInput(given.evidence_id, given.source_sha256, given.source_size, steps, given.trusted),
        name=nested.step.path,
        unique_key=f"{given.evidence_id}×{WHOLE_MAIL}×{' '.join(step.path for step in steps)}",
        ids={"extraction": nested.request_id, "derivative": derive(nested.request_id, "derivative")},
        requested_at=_microseconds(context.publication.requested_at),
    )


MAIL_KIND = Kind(
    MAIL_HEADERS,
    1,
    analyse_mail,
    MailInput,
    publications=PUBLICATIONS,
    lookup=look_for_mail,
    discard=remove_leftovers,
    give_up_on=_HOPELESS,
    active_limit_s=ACTIVE_LIMIT_S,
)
PICTURE_KIND = Kind(
    PICTURE_METADATA,
    1,
    analyse_picture,
    PictureInput,
    publications=PUBLICATIONS,
    lookup=look_for_picture,
    discard=remove_leftovers,
    missing=missing_exiftool,
    give_up_on=_HOPELESS,
    active_limit_s=ACTIVE_LIMIT_S,
)
WHOLE_MAIL_KIND = Kind(
    WHOLE_MAIL,
    1,
    analyse_whole_mail,
    WholeMailInput,
    publications=PUBLICATIONS,
    lookup=look_for_whole_mail,
    discard=remove_leftovers,
    give_up_on=_HOPELESS,
    active_limit_s=ACTIVE_LIMIT_S,
)
