"""What may be asked of a piece of evidence: the capabilities, their typed inputs, and the ids of a request (L:Q-6).

Plain values made from rows of the catalogue; handing a request to the engine is `jobs.submit`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from perenne.apps.evidence import identities
from perenne.apps.evidence.rows import Evidence
from perenne.errors import InvalidInput

MAIL_HEADERS = "labfy.capability.eml_headers.v1"
PICTURE_METADATA = "labfy.capability.exif_metadata.v1"
WHOLE_MAIL = "evidence.mail"

# What `enqueue` asks for; a whole mail is analysed when somebody asks.
CAPABILITY_OF_TYPE = {"email": MAIL_HEADERS, "photo": PICTURE_METADATA}

_Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
_Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class HeaderParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a mail is read; the contract fixes it."""

    mode: Literal["headers"]


class TagParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How ExifTool is asked; the contract fixes it."""

    groups: Literal["G1"]
    numeric_values: bool

    def __post_init__(self) -> None:
        if not self.numeric_values:
            raise ValueError("numeric_values is false, this capability reads numbers only")


class _Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    evidence_id: _Id
    source_sha256: _Sha256


class MailInput(_Input, frozen=True, forbid_unknown_fields=True):
    """One mail of at most 4 MiB."""

    source_size: Annotated[int, msgspec.Meta(ge=1, le=4 << 20)]
    parameters: HeaderParameters


class PictureInput(_Input, frozen=True, forbid_unknown_fields=True):
    """One picture of at most 16 MiB."""

    source_size: Annotated[int, msgspec.Meta(ge=1, le=16 << 20)]
    parameters: TagParameters


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From a message to one that is nested in it: its part, where that part lies, its coding, the bytes it gives."""

    path: str
    offset: Annotated[int, msgspec.Meta(ge=0)]
    length: Annotated[int, msgspec.Meta(ge=0)]
    coding: Literal["identity", "base64", "quoted-printable", "uuencode"]
    sha256: _Sha256


class WholeMailInput(_Input, frozen=True, forbid_unknown_fields=True):
    """One mail of at most 64 MiB, or the message that `steps` lead to; `trusted` receivers as `mail.analyse`."""

    source_size: Annotated[int, msgspec.Meta(ge=1, le=64 << 20)]
    steps: Annotated[tuple[Step, ...], msgspec.Meta(max_length=16)] = ()
    trusted: Annotated[tuple[str, ...], msgspec.Meta(max_length=16)] = ()


Input = MailInput | PictureInput | WholeMailInput


class Request(msgspec.Struct, frozen=True):
    """One analysis, with every id it will ever need; `requested_at` is the moment of the submit when it is None."""

    capability: str
    job_id: str
    extraction_id: str
    derivative_id: str
    evidence_id: str
    input: Input
    requested_at: str | None = None
    depends_on: tuple[str, ...] = ()

    @property
    def unique_key(self) -> str:
        """At most one unfinished job has it (EV-6)."""
        return f"{self.evidence_id}×{self.capability}"


def request_of(evidence: Evidence, capability: str, key: str) -> Request:
    """The request that a client makes under `key`, a lower-case UUID that becomes the job's id.

    Raises:
        InvalidInput: the key is no UUID, or this capability does not apply to evidence of this type.
    """
    fitting = _fitting(evidence.type)
    if capability not in fitting:
        fit = " or ".join(fitting) or "none"
        raise InvalidInput(
            f"capability: {capability} does not apply to evidence {evidence.id} of type {evidence.type}; "
            f"what applies is {fit}",
            field="capability",
            value=capability,
        )
    return Request(
        capability=capability,
        job_id=identities.check_uuid("key", key),
        extraction_id=identities.derive(key, "request"),
        derivative_id=identities.derive(key, "derivative"),
        evidence_id=evidence.id,
        input=_whole(evidence) if capability == WHOLE_MAIL else _input(evidence),
    )


def own_request(evidence: Evidence) -> Request | None:
    """The one request that `enqueue` makes for an original, under a key that follows from it; None if none applies."""
    capability = CAPABILITY_OF_TYPE.get(evidence.type)
    if capability is None:
        return None
    return request_of(evidence, capability, identities.derive(evidence.id, f"enqueue:{capability}"))


def specimen_requests(mail: Evidence, picture: Evidence) -> list[Request]:
    """The two fixed requests of a specimen: the mail, then the picture that waits for it (L:2.23)."""
    first = _fixed(identities.SPECIMEN_MAIL, MAIL_HEADERS, mail)
    second = _fixed(identities.SPECIMEN_IMAGE, PICTURE_METADATA, picture)
    return [first, msgspec.structs.replace(second, depends_on=(first.job_id,))]


def _fixed(job: identities.SpecimenJob, capability: str, evidence: Evidence) -> Request:
    return Request(
        capability=capability,
        job_id=job.job_id,
        extraction_id=job.extraction_id,
        derivative_id=job.derivative_id,
        evidence_id=evidence.id,
        input=_input(evidence),
        requested_at=identities.SPECIMEN_REQUESTED_AT,
    )


def _fitting(evidence_type: str) -> tuple[str, ...]:
    """The capabilities that apply to evidence of a type."""
    first = CAPABILITY_OF_TYPE.get(evidence_type)
    return () if first is None else (first, WHOLE_MAIL) if first == MAIL_HEADERS else (first,)


def _whole(evidence: Evidence) -> WholeMailInput:
    return WholeMailInput(evidence.id, evidence.sha256, evidence.size_bytes)


def _input(evidence: Evidence) -> MailInput | PictureInput:
    if evidence.type == "email":
        return MailInput(evidence.id, evidence.sha256, evidence.size_bytes, HeaderParameters("headers"))
    return PictureInput(evidence.id, evidence.sha256, evidence.size_bytes, TagParameters("G1", True))
